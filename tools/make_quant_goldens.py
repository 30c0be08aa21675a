#!/usr/bin/env python3
"""Makes tests/golden/quant/<format>.bin: random blocks and the values the reference reader gives them.

Needs: pip install gguf==0.19.0 numpy
A file holds: u32 number of blocks, the blocks' bytes, and for each element the bits of its float32 (little-endian).
"""
import pathlib
import sys

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
        data = numpy.uint32(len(blocks)).astype("<u4").tobytes() + blocks.tobytes() + values.tobytes()
        (folder / f"{name.lower()}.bin").write_bytes(data)
        print(f"{name}: {len(blocks)} blocks, {len(data)} bytes, {numpy.isnan(values).sum()} NaN")


main()
