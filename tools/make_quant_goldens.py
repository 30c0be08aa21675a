#!/usr/bin/env python3
"""Makes tests/golden/quant/<format>.bin: random blocks and the values they stand for. Those of GGUF's formats are the
reference reader's; those of blocks that Pagoda puts together from a checkpoint's tensors follow the formulas of their
headers, written down here a second time with numpy and ml_dtypes.

Needs: pip install gguf==0.19.0 numpy ml_dtypes
A file holds: u32 number of blocks, the blocks' bytes, and for each element the bits of its float32 (little-endian).
"""
import pathlib
import sys

import ml_dtypes
import numpy
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Where the binary16 scales of a block lie; None: the elements themselves are the floats.
HALVES = {
    "F16": None, "BF16": None, "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
    "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}
SPECIAL_HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00]
EXPONENTS = [0, 1, 2, 3, 125, 126, 127, 128, 251, 252, 253, 254, 255]


def finite_half(random):
    while True:
        half = int(random.integers(0, 1 << 16))
        if half >> 10 & 31 != 31:
            return half


def make_blocks(name, count, size, random):
    blocks = random.integers(0, 256, (count, size), dtype=numpy.uint8)
    for index, block in enumerate(blocks):
        if name == "MXFP4" and index < len(EXPONENTS):
            block[0] = EXPONENTS[index]
        for place, offset in enumerate(HALVES[name] or []):
            special = SPECIAL_HALVES[(index + 3 * place) % len(SPECIAL_HALVES)]
            half = special if index < len(SPECIAL_HALVES) else finite_half(random)
            block[offset:offset + 2] = (half & 255, half >> 8)
    return blocks


def code_matrix(codes, bits, count):
    """(blocks, bytes) as (blocks, count) integers, from the least significant bit on."""
    stream = numpy.unpackbits(codes, axis=1, bitorder="little")[:, :count * bits].reshape(len(codes), count, bits)
    return (stream.astype(numpy.int64) << numpy.arange(bits)).sum(axis=2)


def once(product):
    """A float64, exact as far as it matters here, rounded to float32 once."""
    with numpy.errstate(over="ignore"):
        return product.astype(numpy.float32)


def finite_floats(random, count, bits_of_mantissa=23):
    """Of all sizes that scales may have, and the ends of the range."""
    words = random.integers(0, 1 << 32, 4 * count, dtype=numpy.uint32)
    words = words >> (23 - bits_of_mantissa) << (23 - bits_of_mantissa)
    words = words[numpy.isfinite(words.view(numpy.float32))][:count]
    special = numpy.array([0, 0x80000000, 0x3F800000, 0xBF800000, 0x00800000, 0x7F7F0000], dtype=numpy.uint32)
    words[:len(special)] = special
    return words


def affine(bits, group, half):
    def make(random):
        count = 19
        dtype = numpy.float16 if half else ml_dtypes.bfloat16
        pair = random.integers(0, 1 << 16, (4000, 2), dtype=numpy.uint16)
        pair = pair[numpy.isfinite(pair.view(dtype).astype(numpy.float32)).all(axis=1)][:count]
        pair[:3] = [[0, 0], [0x3C00, 0x8000], [1, 0x8001]]
        codes = random.integers(0, 256, (count, group * bits // 8), dtype=numpy.uint8)
        scale, bias = pair.view(dtype).astype(numpy.float64).T
        # Exact product, then one sum: float32 has room for the product, and float64 for the sum of what float32 can see.
        product = once(code_matrix(codes, bits, group) * scale[:, None])
        with numpy.errstate(over="ignore", invalid="ignore"):
            values = product + bias.astype(numpy.float32)[:, None]
        return numpy.hstack([pair.view(numpy.uint8), codes]), values
    return make


def packed(bits, group):
    def make(random):
        count = 19
        scale = finite_floats(random, count, 15)
        zero = random.integers(0, 1 << bits, count, dtype=numpy.uint32)
        codes = random.integers(0, 256, (count, group * bits // 8), dtype=numpy.uint8)
        centred = code_matrix(codes, bits, group) - zero[:, None].astype(numpy.int64)
        values = once(centred.astype(numpy.float32) * scale.view(numpy.float32)[:, None].astype(numpy.float64))
        return numpy.hstack([(scale | zero).view(numpy.uint8).reshape(count, 4), codes]), values
    return make


def no_nan(codes, dtype):
    return numpy.where(numpy.isfinite(codes.view(dtype).astype(numpy.float32)), codes, numpy.uint8(0x31))


def fp8(dtype, columns):
    def make(random):
        count = 19
        scale = finite_floats(random, count)
        codes = no_nan(random.integers(0, 256, (count, columns), dtype=numpy.uint8), dtype)
        values = once(codes.view(dtype).astype(numpy.float64) * scale.view(numpy.float32).astype(numpy.float64)[:, None])
        return numpy.hstack([scale.view(numpy.uint8).reshape(count, 4), codes]), values
    return make


def mxfp8(random):
    count = 40
    exponents = random.integers(0, 255, (count, 1), dtype=numpy.uint8)
    exponents[:12, 0] = EXPONENTS[:12]
    codes = no_nan(random.integers(0, 256, (count, 32), dtype=numpy.uint8), ml_dtypes.float8_e4m3fn)
    scale = exponents.view(ml_dtypes.float8_e8m0fnu).astype(numpy.float64)
    return numpy.hstack([exponents, codes]), once(codes.view(ml_dtypes.float8_e4m3fn).astype(numpy.float64) * scale)


def nvfp4(random):
    count = 19
    tensor_scale = finite_floats(random, count)
    scales = no_nan(random.integers(0, 256, (count, 16), dtype=numpy.uint8), ml_dtypes.float8_e4m3fn)
    codes = random.integers(0, 256, (count, 128), dtype=numpy.uint8)
    elements = code_matrix(codes, 4, 256).astype(numpy.uint8).view(ml_dtypes.float4_e2m1fn).astype(numpy.float64)
    exact = elements * scales.view(ml_dtypes.float8_e4m3fn).astype(numpy.float64).repeat(16, axis=1)
    values = once(exact * tensor_scale.view(numpy.float32).astype(numpy.float64)[:, None])
    return numpy.hstack([tensor_scale.view(numpy.uint8).reshape(count, 4), scales, codes]), values


def nf4_values():
    """Quantiles of a normal distribution, as bitsandbytes' create_normal_map rounds them."""
    return [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
            -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
            0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]


def fp4_values():
    half = numpy.array([0, 0.0625, 8, 12, 4, 6, 2, 3], dtype=numpy.float32) / numpy.float32(12)
    return numpy.concatenate([half, -half])


def bnb4(table):
    def make(random):
        count = 24
        absmax = finite_floats(random, count)
        codes = random.integers(0, 256, (count, 32), dtype=numpy.uint8)
        elements = numpy.array(table, dtype=numpy.float32)[code_matrix(codes, 4, 64)]
        values = once(elements.astype(numpy.float64) * absmax.view(numpy.float32).astype(numpy.float64)[:, None])
        return numpy.hstack([absmax.view(numpy.uint8).reshape(count, 4), codes]), values
    return make


OWN = {f"affine{bits}_g{group}": affine(bits, group, False) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)}
OWN |= {f"affine{bits}_g{group}_f16": affine(bits, group, True) for bits in (4, 8) for group in (32, 64, 128)}
OWN |= {f"packed{bits}_g{group}": packed(bits, group) for bits in (4, 8) for group in (32, 64, 128)}
OWN |= {"packed2_g128": packed(2, 128), "packed3_g128": packed(3, 128),
        "fp8_e4m3": fp8(ml_dtypes.float8_e4m3fn, 128), "fp8_e4m3_g32": fp8(ml_dtypes.float8_e4m3fn, 32),
        "fp8_e5m2": fp8(ml_dtypes.float8_e5m2, 128), "fp8_e5m2_g32": fp8(ml_dtypes.float8_e5m2, 32),
        "mxfp8": mxfp8, "nvfp4": nvfp4, "bnb_nf4": bnb4(nf4_values()), "bnb_fp4": bnb4(fp4_values())}


def write(folder, name, blocks, values):
    data = numpy.uint32(len(blocks)).astype("<u4").tobytes() + blocks.tobytes() + values.astype("<f4").tobytes()
    (folder / f"{name.lower()}.bin").write_bytes(data)
    print(f"{name}: {len(blocks)} blocks, {len(data)} bytes, {numpy.isnan(values).sum()} NaN")


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/quant")
    for number, name in enumerate(HALVES):
        quant = GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[quant]
        random = numpy.random.default_rng(1000 + number)
        blocks = make_blocks(name, {1: 1000, 32: 40, 256: 19}[elements], size, random)
        if HALVES[name] is None:  # no NaN: a converter may make it quiet
            values = dequantize(blocks, quant)
            blocks = blocks[~numpy.isnan(values[:, 0])]
        with numpy.errstate(over="ignore", invalid="ignore"):
            values = dequantize(blocks, quant).astype("<f4")
        write(folder, name, blocks, values)
    for number, (name, make) in enumerate(OWN.items()):
        write(folder, name, *make(numpy.random.default_rng(2000 + number)))


main()
