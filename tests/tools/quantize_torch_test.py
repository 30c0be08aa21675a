#!/usr/bin/env python3
"""What `pagoda quantize` writes, loaded by transformers on a CPU: through compressed-tensors, its fp8 and GGUF readers, and
by MLX's arrays what is MLX's. Checkpoints that compressed-tensors itself writes, too. Each weight must be the one that
Pagoda reads, and the logits those of `--device reference`.

Usage: quantize_torch_test.py PROGRAM MODEL.gguf [torch|written|mlx|gguf|NAME ...]
Needs: pip install torch transformers compressed-tensors gguf accelerate mlx[cpu]; gigabytes, so no CI runs it (`make
test-readers` does).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import torch
import transformers
from compressed_tensors import __version__ as compressed_tensors_version
from safetensors import safe_open

GGUF = ["q4_0", "q8_0", "q4_k_m", "q6_k", "iq4_xs", "bf16"]
TORCH = ["bf16", "f16", "fp8_e4m3", "fp8_block128", "packed4_g32", "packed4_g64", "packed4_g128", "packed8", "nvfp4"]
MLX = ["affine2_g32", "affine3_g64", "affine4_g64", "affine5_g32", "affine6_g64", "affine8_g128", "mxfp4", "mxfp8"]
PRESETS = ["W4A16", "W4A16_ASYM", "W8A16", "W8A8", "FP8", "FP8_DYNAMIC", "FP8_BLOCK", "NVFP4A16", "NVFP4", "MXFP4A16",
           "MXFP8A16"]
IDS = [3, 501, 17, 17, 250, 8, 99, 411, 5]


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tensors_of(folder):
    with safe_open(folder / "model.safetensors", "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def read_by_pagoda(model, place):
    """The values that Pagoda reads from a model, by the names of a Hugging Face directory."""
    plain = place / "read_by_pagoda"
    run("quantize", model, plain, "--format", "f32", "--json", "--overwrite")
    return tensors_of(plain)


def logits_of_pagoda(model, ids, place):
    out = place / "logits.npy"
    run("score", model, "--tokens", ",".join(map(str, ids)), "--device", "reference", "--logits", out)
    return numpy.load(out)


def make_model(place):
    """A small Llama whose sizes divide by 128 and no other power."""
    torch.manual_seed(7)
    config = transformers.LlamaConfig(hidden_size=384, intermediate_size=640, num_hidden_layers=2, vocab_size=512,
                                      num_attention_heads=6, num_key_value_heads=2, head_dim=64,
                                      tie_word_embeddings=False, initializer_range=0.05, max_position_embeddings=256)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(place)


def load(folder, **more):
    config = folder / "config.json"
    keys = json.loads(config.read_text()) if config.exists() else {}
    method = keys.get("quantization_config", {}).get("quant_method")
    if method == "compressed-tensors":
        more["quantization_config"] = transformers.CompressedTensorsConfig(run_compressed=False)
    elif method == "fp8":
        more["quantization_config"] = transformers.FineGrainedFP8Config(dequantize=True)
    # bfloat16 in the file would round what is put together from codes and scales.
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **more).eval()


def compare(name, model, wanted, logits, ids):
    """Each weight is Pagoda's, or what compressed-tensors makes of it in bfloat16: a product rounded once, of NVFP4 one
    of a scale that was rounded too."""
    found = dict(model.named_parameters()) | dict(model.named_buffers())
    exact = rounded = 0
    for key, value in wanted.items():
        if key == "lm_head.weight" and key not in found:
            continue
        have = found[key].detach().to(torch.float32)
        if torch.equal(have, value):
            exact += 1
            continue
        same = ((have - value).abs() <= value.abs() * 2 ** -8).all() if name == "nvfp4" else \
            torch.equal(have, value.bfloat16().float())
        assert same, f"{name}: {key} differs by {((have - value).abs().max() / value.abs().max())}"
        rounded += 1
    assert exact + rounded >= 10
    with torch.no_grad():
        have = model(torch.tensor([ids])).logits[0].numpy()
    error = float(numpy.abs(have - logits).max() / logits.std())
    assert error <= (3e-2 if rounded else 1e-3), f"{name}: logits differ by {error}"
    print(f"{name}: {exact} tensors are Pagoda's, {rounded} are those rounded to bfloat16; "
          f"logits differ by {error:.1e} of their deviation", flush=True)


def check_torch(names, place):
    source = place / "source"
    make_model(source)
    for name in names:
        out = place / name
        run("quantize", source, out, "--format", name, "--json")
        compare(name, load(out), read_by_pagoda(out, place), logits_of_pagoda(out, IDS, place), IDS)


def scales_of(weight, args, global_scale):
    """Scales and zero points from the least and the largest value of what shares one."""
    from compressed_tensors.quantization.utils import calculate_qparams
    rows, cols = weight.shape
    if args.strategy == "block":
        high, wide = args.block_structure
        tiles = weight.reshape(rows // high, high, cols // wide, wide).transpose(1, 2).flatten(2)
    elif args.group_size and args.group_size > 0:
        tiles = weight.reshape(rows, cols // args.group_size, args.group_size)
    elif args.strategy == "channel":
        tiles = weight.reshape(rows, 1, cols)
    else:
        tiles = weight.reshape(1, -1)
    return calculate_qparams(tiles.amin(-1), tiles.amax(-1), args, global_scale)


def write_by_compressed_tensors(source, preset, out):
    """A checkpoint that compressed-tensors itself compresses."""
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config, preset_name_to_scheme
    from compressed_tensors.quantization.utils import generate_gparam
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    config = QuantizationConfig(config_groups={"group_0": preset_name_to_scheme(preset, ["Linear"])}, ignore=["lm_head"])
    apply_quantization_config(model, config)
    for module in model.modules():
        if getattr(module, "quantization_scheme", None) is None:
            continue
        args, weight = module.quantization_scheme.weights, module.weight.data
        global_scale = None
        if hasattr(module, "weight_global_scale"):
            global_scale = generate_gparam(weight.amin().float(), weight.amax().float())
            module.weight_global_scale.data.copy_(global_scale.reshape(module.weight_global_scale.shape))
        scale, zero = scales_of(weight, args, global_scale)
        module.weight_scale.data.copy_(scale.reshape(module.weight_scale.shape))
        if hasattr(module, "weight_zero_point"):
            module.weight_zero_point.data.copy_(zero.reshape(module.weight_zero_point.shape))
        for name in ("input_scale", "input_global_scale"):
            if hasattr(module, name):
                getattr(module, name).data.fill_(1)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(out)
    compressor.update_config(out)


def check_written_by_others(names, place):
    source = place / "source_other"
    make_model(source)
    for preset in names:
        out = place / f"other_{preset}"
        write_by_compressed_tensors(source, preset, out)
        kind = "nvfp4" if preset.startswith("NVFP4") else preset
        compare(kind, load(out), read_by_pagoda(out, place), logits_of_pagoda(out, IDS, place), IDS)


def check_mlx(names, place):
    import mlx.core as mx
    source = place / "source_mlx"
    make_model(source)
    for name in names:
        out = place / f"mlx_{name}"
        run("quantize", source, out, "--format", name, "--json")
        keys = json.loads((out / "config.json").read_text())["quantization"]
        mode = keys.get("mode", "affine")
        wanted, tensors, compared = read_by_pagoda(out, place), mx.load(str(out / "model.safetensors")), 0
        for key in wanted:
            base = key.removesuffix("weight")
            if base + "scales" not in tensors:
                continue
            biases = tensors.get(base + "biases")
            # In float32 MLX multiplies and adds with one rounding or two; in bfloat16 it would round to 8 bits.
            scales = tensors[base + "scales"]
            if mode == "affine":
                scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
            values = mx.dequantize(tensors[key], scales, biases, group_size=keys["group_size"], bits=keys["bits"],
                                   mode=mode)
            have = numpy.array(values.astype(mx.float32))
            want = wanted[key].numpy()
            error = numpy.abs(have - want).max() / numpy.abs(want).max()
            assert error <= 1e-6, (name, key, error)
            compared += 1
        assert compared == 14, compared
        print(f"{name}: {compared} weights as MLX dequantises them", flush=True)


def check_gguf(names, model, place):
    ids = [504, 2012, 338, 1834, 29, 28]
    for name in names:
        out = place / f"{name}.gguf"
        run("quantize", model, out, "--format", name, "--json")
        compare(name + ".gguf", load(place, gguf_file=out.name), read_by_pagoda(out, place),
                logits_of_pagoda(out, ids, place), ids)
        out.unlink()


if __name__ == "__main__":
    PROGRAM, MODEL = sys.argv[1], pathlib.Path(sys.argv[2])
    chosen = sys.argv[3:]
    wanted = lambda names, kind: [n for n in names if not chosen or n in chosen or kind in chosen]
    with tempfile.TemporaryDirectory() as folder:
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        warnings.simplefilter("ignore")
        print(f"transformers {transformers.__version__}, torch {torch.__version__}, "
              f"compressed-tensors {compressed_tensors_version}", flush=True)
        check_torch(wanted(TORCH, "torch"), pathlib.Path(folder))
        check_written_by_others(wanted(PRESETS, "written"), pathlib.Path(folder))
        check_mlx(wanted(MLX, "mlx"), pathlib.Path(folder))
        check_gguf(wanted(GGUF, "gguf"), MODEL, pathlib.Path(folder))
