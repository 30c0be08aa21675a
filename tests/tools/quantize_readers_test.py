#!/usr/bin/env python3
"""What `pagoda quantize` writes, read by others: GGUF files by the gguf package, directories by safetensors, ml_dtypes and
a formula for each layout. The error of each tensor must be the one that the program states.

Usage: quantize_readers_test.py PROGRAM MODEL.gguf [FORMAT ...]
Needs: pip install gguf numpy safetensors ml_dtypes
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy
from gguf import GGUFReader
from gguf.quants import dequantize

GGUF = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q4_k_m", "q5_k", "q6_k", "iq4_nl", "iq4_xs",
        "mxfp4", "f16", "bf16"]
FOLDERS = ["affine2_g32", "affine3_g64", "affine4_g64", "affine5_g32", "affine6_g64", "affine8_g64", "mxfp4", "mxfp8",
           "fp8_e4m3", "fp8_block128", "packed4_g64", "packed4_g32", "packed8", "nvfp4"]
TYPES = {"F32": "<f4", "F16": "<f2", "BF16": ml_dtypes.bfloat16, "U8": "u1", "I32": "<i4", "U32": "<u4", "I64": "<i8",
         "F8_E4M3": ml_dtypes.float8_e4m3fn}


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def relative_rms(wanted, found):
    wanted, found = wanted.astype("f8"), found.astype("f8")
    assert wanted.shape == found.shape, (wanted.shape, found.shape)
    size = (wanted ** 2).sum()
    return float(numpy.sqrt(((wanted - found) ** 2).sum() / size)) if size > 0 else 0.0


def check(told, values, name):
    # The program adds in pieces; 1e-9 is what the order of sums may do.
    assert abs(values - told) <= 1e-9 + 1e-6 * told, (name, values, told)


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    length = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = numpy.frombuffer(data, dtype="u1", count=end - begin, offset=8 + length + begin)
        tensors[name] = raw.view(TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def unpack(words, bits, cols):
    """Codes from the least significant bit of a row's bytes on."""
    rows = numpy.ascontiguousarray(words).view("u1").reshape(words.shape[0], -1)
    stream = numpy.unpackbits(rows, axis=1, bitorder="little")[:, :cols * bits].reshape(rows.shape[0], cols, bits)
    return (stream.astype("u4") << numpy.arange(bits, dtype="u4")).sum(axis=2)


def spread(groups, each, cols, axis=1):
    return numpy.repeat(groups, each, axis=axis).take(numpy.arange(cols), axis=axis)


def weight_of(tensors, config, name, shape):
    """The values of a weight, from whatever keeps it."""
    rows, cols = shape
    base = name[:-len("weight")]
    mlx = config.get("quantization", {})
    f4 = numpy.float32
    if base + "scales" in tensors:
        codes, scales = unpack(tensors[name], mlx["bits"], cols), tensors[base + "scales"]
        if mlx.get("mode", "affine") == "affine":
            scale, bias = (spread(tensors[base + part].astype(f4), mlx["group_size"], cols)
                           for part in ("scales", "biases"))
            return scale * codes.astype(f4) + bias
        element = ml_dtypes.float4_e2m1fn if mlx["bits"] == 4 else ml_dtypes.float8_e4m3fn
        values = codes.astype("u1").view(element).astype(f4)
        return values * spread(numpy.exp2(scales.astype("f8") - 127), 32, cols).astype(f4)
    if base + "weight_scale_inv" in tensors:
        scale = spread(tensors[base + "weight_scale_inv"], 128, cols)
        return tensors[name].astype(f4) * spread(scale, 128, rows, axis=0)
    if base + "weight_global_scale" in tensors:
        values = unpack(tensors[base + "weight_packed"], 4, cols).astype("u1").view(ml_dtypes.float4_e2m1fn).astype(f4)
        scale = spread(tensors[base + "weight_scale"].astype(f4), 16, cols)
        return values * scale * (f4(1) / tensors[base + "weight_global_scale"][0])
    if base + "weight_packed" in tensors:
        assert list(tensors[base + "weight_shape"]) == [rows, cols]
        weights = config["quantization_config"]["config_groups"]["group_0"]["weights"]
        codes = unpack(tensors[base + "weight_packed"], weights["num_bits"], cols).astype("i4")
        scale = spread(tensors[base + "weight_scale"].astype(f4), weights["group_size"], cols)
        return (codes - (1 << (weights["num_bits"] - 1))).astype(f4) * scale
    if base + "weight_scale" in tensors:
        return tensors[name].astype(f4) * tensors[base + "weight_scale"]
    return tensors[name].astype(f4)


def check_gguf(source, formats, folder):
    wanted = {t.name: dequantize(t.data, t.tensor_type) for t in GGUFReader(source).tensors}
    for name in formats:
        out = folder / f"{name}.gguf"
        told = {t["name"]: t for t in run("quantize", source, out, "--format", name, "--json")["tensors"]}
        tensors = GGUFReader(out).tensors
        assert {t.name for t in tensors} == set(wanted) == set(told)
        for t in tensors:
            check(told[t.name]["relative_rms"], relative_rms(wanted[t.name], dequantize(t.data, t.tensor_type)), t.name)
        print(f"{name}: {len(tensors)} tensors as the gguf package reads them")
        out.unlink()


def check_folders(source, formats, folder):
    plain = folder / "plain"
    run("quantize", source, plain, "--format", "f32", "--json")
    wanted = read_safetensors(plain / "model.safetensors")
    for name in formats:
        out = folder / name
        told = {t["name"]: t for t in run("quantize", plain, out, "--format", name, "--json")["tensors"]}
        tensors = read_safetensors(out / "model.safetensors")
        config = json.loads((out / "config.json").read_text())
        assert set(told) == set(wanted)
        quantised = 0
        for weight, row in told.items():
            shape = wanted[weight].shape
            values = weight_of(tensors, config, weight, shape) if len(shape) == 2 else tensors[weight].astype("f4")
            check(row["relative_rms"], relative_rms(wanted[weight], values), weight)
            quantised += row["relative_rms"] > 0
        assert quantised > 0, "nothing was quantised"
        print(f"{name}: {len(tensors)} tensors of {len(told)} weights by formula")
        subprocess.run(["rm", "-r", str(out)], check=True)


if __name__ == "__main__":
    PROGRAM, model = sys.argv[1], pathlib.Path(sys.argv[2])
    chosen = set(sys.argv[3:])
    with tempfile.TemporaryDirectory() as place:
        check_gguf(model, [f for f in GGUF if not chosen or f in chosen], pathlib.Path(place))
        check_folders(model, [f for f in FOLDERS if not chosen or f in chosen], pathlib.Path(place))
