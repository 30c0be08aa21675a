#!/usr/bin/env python3
"""Makes tests/golden/checkpoints/<layout>/: a small Llama in each layout that quantised checkpoints have.

Needs: pip install numpy ml_dtypes safetensors
A directory holds config.json and model.safetensors as the tools of that layout write them, and expected.json: for each
weight the SHA-256 of its values (float32, row after row), and the logits that the model has with these values, computed
here in float64. Packing and values follow from the layouts' own documents; nothing of Pagoda has part in them.
"""
import hashlib
import json
import pathlib
import shutil
import sys

import ml_dtypes
import numpy
from safetensors.numpy import save_file

F32, F64, BF16, F16 = numpy.float32, numpy.float64, ml_dtypes.bfloat16, numpy.float16
E4M3, E5M2, E2M1, E8M0 = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn,
                          ml_dtypes.float8_e8m0fnu)
SIZES = {"hidden_size": 160, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 64,
         "intermediate_size": 64, "vocab_size": 41, "num_hidden_layers": 1}
IDS = [3, 40, 7, 36, 0, 15, 15, 29, 12, 8, 31, 20, 2, 19, 34, 23, 5]


def pack_bits(codes, bits, axis):
    """Codes along an axis as 32-bit words, from the least significant bit on; the last word is filled with zeros."""
    codes = numpy.moveaxis(numpy.asarray(codes, dtype=numpy.uint32), axis, -1)
    stream = ((codes[..., None] >> numpy.arange(bits, dtype=numpy.uint32)) & 1).astype(numpy.uint8)
    stream = stream.reshape(*codes.shape[:-1], -1)
    stream = numpy.pad(stream, [(0, 0)] * (stream.ndim - 1) + [(0, -stream.shape[-1] % 32)])
    words = numpy.packbits(stream, axis=-1, bitorder="little").copy().view(numpy.uint32)
    return numpy.ascontiguousarray(numpy.moveaxis(words, -1, axis))


def each_column(groups, group, k):
    """A number for each group of columns as one for each column."""
    return numpy.repeat(groups, group, axis=1)[:, :k]


class Checkpoint:
    def __init__(self, name, sizes):
        self.random = numpy.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big"))
        self.sizes = SIZES | sizes
        self.tensors = {}
        self.values = {}  # of matrices, by module; what the tensors stand for

    def dense(self, name, shape, spread):
        value = (self.random.standard_normal(shape) * spread).astype(BF16)
        self.tensors[name] = value
        return value.astype(F32)

    def scales(self, shape, spread, dtype=BF16):
        return ((0.6 + 0.8 * self.random.random(shape)) * spread).astype(dtype)

    def codes(self, shape, bits):
        """Of a bell, so that few lie at the ends."""
        middle = (1 << bits) / 2
        return numpy.clip(numpy.rint(self.random.standard_normal(shape) * middle / 2.5 + middle - 0.5), 0,
                          (1 << bits) - 1).astype(numpy.int64)


def once(value):
    """A product that is exact in float64, rounded to float32."""
    return numpy.asarray(value, dtype=F64).astype(F32)


def gptq(bits, group, version=1, order=False, scale_dtype=F16):
    def write(c, module, n, k):
        size = group if group > 0 else k
        count = -(-k // size)
        codes, zeros = c.codes((n, k), bits), c.codes((n, count), bits)
        zeros[0, 0] = 0  # version 1 keeps zero - 1, which wraps
        scales = c.scales((n, count), 2.5 / (1 << bits) * 2 / k ** 0.5, scale_dtype)
        g_idx = numpy.arange(k) // size
        if order:
            g_idx = g_idx[c.random.permutation(k)]
        stored = (zeros - (1 if version == 1 else 0)) & ((1 << bits) - 1)
        c.tensors |= {f"{module}.qweight": pack_bits(codes.T, bits, 0).view(numpy.int32),
                      f"{module}.qzeros": pack_bits(stored.T, bits, 1).view(numpy.int32),
                      f"{module}.scales": numpy.ascontiguousarray(scales.T),
                      f"{module}.g_idx": g_idx.astype(numpy.int32)}
        return once((codes - zeros[:, g_idx]) * scales.astype(F64)[:, g_idx])
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": order, "sym": False,
              "damp_percent": 0.01, "true_sequential": True}
    if version == 2:
        config["checkpoint_format"] = "gptq_v2"
    return write, {"quantization_config": config}


def awq(group):
    def write(c, module, n, k):
        count = -(-k // group)
        codes, zeros = c.codes((n, k), 4), c.codes((n, count), 4)
        scales = c.scales((n, count), 0.3 / k ** 0.5, F16)
        lanes = numpy.array([0, 2, 4, 6, 1, 3, 5, 7])  # which of eight outputs each nibble holds, from the lowest on

        def words(values):  # (n, columns) → (columns, n / 8)
            eight = values.T.reshape(values.shape[1], n // 8, 8)[:, :, lanes].astype(numpy.uint32)
            return (eight << (4 * numpy.arange(8, dtype=numpy.uint32))).sum(axis=2).astype(numpy.uint32).view(numpy.int32)
        c.tensors |= {f"{module}.qweight": words(codes), f"{module}.qzeros": words(zeros),
                      f"{module}.scales": numpy.ascontiguousarray(scales.T)}
        return once((codes - each_column(zeros, group, k)) * each_column(scales.astype(F64), group, k))
    return write, {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True,
                                           "version": "gemm", "modules_to_not_convert": ["lm_head"]}}


def compressed(form, weights, **more):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    return {"quantization_config": {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
                                    "config_groups": {"group_0": group | more}, "quantization_status": "compressed",
                                    "global_compression_ratio": None, "kv_cache_scheme": None}}


def packed(bits, group, symmetric, actorder=False):
    def write(c, module, n, k):
        size = group if group else k
        count = -(-k // size)
        codes = c.codes((n, k), bits)
        zeros = numpy.full((n, count), 1 << (bits - 1)) if symmetric else c.codes((n, count), bits)
        scales = c.scales((n, count), 5 / (1 << bits) / k ** 0.5)
        g_idx = numpy.arange(k) // size
        c.tensors |= {f"{module}.weight_packed": pack_bits(codes, bits, 1).view(numpy.int32),
                      f"{module}.weight_scale": scales,
                      f"{module}.weight_shape": numpy.array([n, k], dtype=numpy.int64)}
        if actorder:
            g_idx = g_idx[c.random.permutation(k)]
            c.tensors[f"{module}.weight_g_idx"] = g_idx.astype(numpy.int32)
        if not symmetric:
            c.tensors[f"{module}.weight_zero_point"] = pack_bits(zeros, bits, 0).view(numpy.int32)
        return once((codes - zeros[:, g_idx]) * scales.astype(F64)[:, g_idx])
    weights = {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": "group" if group else "channel",
               "group_size": group or None, "block_structure": None, "dynamic": False,
               "actorder": "group" if actorder else None, "observer": "minmax", "observer_kwargs": {}}
    return write, compressed("pack-quantized", weights)


def int8(c, module, n, k):
    codes = c.codes((n, k), 8) - 128
    scales = c.scales((n, 1), 0.02 / k ** 0.5)
    c.tensors |= {f"{module}.weight": codes.astype(numpy.int8), f"{module}.weight_scale": scales}
    return once(codes * scales.astype(F64))


def fp8(dtype, scale, suffix="weight_scale", block=None, static=False):
    def write(c, module, n, k):
        codes = (c.random.standard_normal((n, k)) * 40).astype(dtype)
        spread = 1 / 40 / k ** 0.5
        if scale == "tensor":
            scales = c.scales((), spread, F32)
            grid = numpy.broadcast_to(scales, (n, k))
        elif scale == "channel":
            scales = c.scales((n, 1), spread)
            grid = numpy.broadcast_to(scales, (n, k))
        else:
            scales = c.scales((-(-n // block[0]), -(-k // block[1])), spread, F32)
            grid = scales.repeat(block[0], axis=0)[:n].repeat(block[1], axis=1)[:, :k]
        c.tensors |= {f"{module}.weight": codes, f"{module}.{suffix}": scales}
        if static:
            c.tensors[f"{module}.input_scale"] = F32(0.011)
        return once(codes.astype(F64) * grid.astype(F64))
    return write


def fp4_bytes(codes):
    return (codes[:, 0::2] | codes[:, 1::2] << 4).astype(numpy.uint8)


def nvfp4(direction):
    def write(c, module, n, k):
        codes = c.random.integers(0, 16, (n, k))
        scales = (c.random.random((n, k // 16)) * 300 + 20).astype(E4M3)
        glob = F32(0.9 / 250 / k ** 0.5)
        values = codes.astype(numpy.uint8).view(E2M1).astype(F64) * scales.astype(F64).repeat(16, axis=1)
        if direction == "modelopt":
            c.tensors |= {f"{module}.weight": fp4_bytes(codes), f"{module}.weight_scale": scales,
                          f"{module}.weight_scale_2": glob, f"{module}.input_scale": F32(0.02)}
        elif direction == "mlx":
            scales = (c.random.random((n, k // 16)) * 0.5 / k ** 0.5 * 3).astype(E4M3)
            values = codes.astype(numpy.uint8).view(E2M1).astype(F64) * scales.astype(F64).repeat(16, axis=1)
            c.tensors |= {f"{module}.weight": pack_bits(codes, 4, 1), f"{module}.scales": scales.view(numpy.uint8)}
            return once(values)
        else:  # the same number, as its inverse; what a reader multiplies with is the inverse of that, in float32
            divisor = numpy.array([F32(1) / glob], dtype=F32)
            glob = (F32(1) / divisor)[0]
            c.tensors |= {f"{module}.weight_packed": fp4_bytes(codes), f"{module}.weight_scale": scales,
                          f"{module}.weight_global_scale": divisor,
                          f"{module}.input_global_scale": numpy.array([50], dtype=F32)}
        return once(values * F64(glob))
    return write


def mx(bits, layout):
    def write(c, module, n, k):
        shift = int(numpy.ceil(numpy.log2(k) / 2))
        exponents = c.random.integers(-2, 1, (n, k // 32)) - shift - (5 if bits == 8 else 0)
        scale = (2.0 ** exponents).repeat(32, axis=1)
        stored = (exponents + 127).astype(numpy.uint8)
        if bits == 8:
            codes = (c.random.standard_normal((n, k)) * 40).astype(E4M3)
            values = codes.astype(F64) * scale
            words = codes.view(numpy.uint8).copy().view(numpy.uint32)
        else:
            codes = c.random.integers(0, 16, (n, k))
            values = codes.astype(numpy.uint8).view(E2M1).astype(F64) * scale
            words = pack_bits(codes, 4, 1)
        if layout == "mlx":
            c.tensors |= {f"{module}.weight": words, f"{module}.scales": stored}
        elif layout == "native":
            c.tensors |= {f"{module}_blocks": fp4_bytes(codes).reshape(n, k // 32, 16), f"{module}_scales": stored}
        else:
            c.tensors |= {f"{module}.weight_packed": fp4_bytes(codes), f"{module}.weight_scale": stored}
        return once(values) + F32(0) if bits == 4 else once(values)  # minus zero of e2m1 reads as zero
    return write


def affine(bits, group, dtype=BF16):
    def write(c, module, n, k):
        count = -(-k // group)
        codes = c.codes((n, k), bits)
        scales = c.scales((n, count), 5 / (1 << bits) / k ** 0.5, dtype)
        scales[0] = -scales[0]
        biases = (-scales.astype(F64) * ((1 << bits) - 1) / 2).astype(dtype)
        c.tensors |= {f"{module}.weight": pack_bits(codes, bits, 1), f"{module}.scales": scales,
                      f"{module}.biases": biases}
        product = once(codes * each_column(scales.astype(F64), group, k))
        return (product.astype(F64) + each_column(biases.astype(F64), group, k)).astype(F32)
    return write


def bnb(kind, nested):
    if kind == "nf4":
        table = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                 -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
                 1.0]
    else:
        half = numpy.array([0, 0.0625, 8, 12, 4, 6, 2, 3], dtype=F32) / F32(12)
        table = numpy.concatenate([half, -half])
    table = numpy.array(table, dtype=F32)

    def write(c, module, n, k):
        codes = c.random.integers(0, 16, (n, k))
        blocks = n * k // 64
        state = {"quant_type": kind, "blocksize": 64, "dtype": "bfloat16", "shape": [n, k]}
        name = f"{module}.weight"
        if nested:
            codebook = numpy.sort(c.random.random(256).astype(F32) * 2 - 1)
            small = c.random.integers(0, 256, blocks, dtype=numpy.uint8)
            outer = (0.5 + c.random.random(-(-blocks // 256))).astype(F32) / F32(k ** 0.5)
            offset = 1.7 / k ** 0.5
            absmax = codebook[small] * outer.repeat(256)[:blocks] + F32(offset)
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset}
            c.tensors |= {f"{name}.absmax": small, f"{name}.nested_absmax": outer, f"{name}.nested_quant_map": codebook}
        else:
            absmax = c.scales((blocks,), 2 / k ** 0.5, F32)
            c.tensors[f"{name}.absmax"] = absmax
        flat = codes.reshape(-1)
        c.tensors |= {name: (flat[0::2] << 4 | flat[1::2]).astype(numpy.uint8)[:, None], f"{name}.quant_map": table,
                      f"{name}.quant_state.bitsandbytes__{kind}": numpy.frombuffer(json.dumps(state).encode(),
                                                                                    dtype=numpy.uint8).copy()}
        return once(table[codes].astype(F64) * absmax.astype(F64).repeat(64).reshape(n, k))
    return write, {"quantization_config": {
        "quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": kind,
        "bnb_4bit_use_double_quant": nested, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8",
        "llm_int8_threshold": 6.0, "llm_int8_skip_modules": ["lm_head"]}}


def mlx(bits, group, mode="affine", **layers):
    both = {"group_size": group, "bits": bits} | ({"mode": mode} if mode != "affine" else {}) | layers
    return {"quantization": both, "quantization_config": both}


FLOAT8 = {"num_bits": 8, "type": "float", "symmetric": True, "dynamic": False}
CASES = {  # name: writer of a matrix, additions to the configuration, sizes, further facts
    "gptq4_g128": (*gptq(4, 128), {}),
    "gptq4_v2_g32": (*gptq(4, 32, version=2), {}),
    "gptq4_order_g64": (*gptq(4, 64, order=True), {"hidden_size": 192}),
    "gptq3_g128": (*gptq(3, 128), {}),
    "gptq2_g64": (*gptq(2, 64), {}),
    "gptq8_channel": (*gptq(8, -1, scale_dtype=BF16), {}),
    "awq4_g64": (*awq(64), {}),
    "packed4_g128": (*packed(4, 128, True), {}),
    "packed4_asymmetric_g32": (*packed(4, 32, False), {}),
    "packed4_order_g64": (*packed(4, 64, False, actorder=True), {}),
    "packed8_channel": (*packed(8, 0, True), {}),
    "int8_channel": (int8, compressed("int-quantized", FLOAT8 | {"type": "int", "strategy": "channel"}), {}),
    "fp8_channel": (fp8(E4M3, "channel"), compressed("float-quantized", FLOAT8 | {"strategy": "channel"}), {}),
    "fp8_block_structure": (fp8(E4M3, "block", block=(32, 64)),
                            compressed("float-quantized", FLOAT8 | {"strategy": "block", "block_structure": [32, 64]}),
                            {}),
    "fp8_block128": (fp8(E4M3, "block", "weight_scale_inv", (128, 128)),
                     {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                                              "weight_block_size": [128, 128]}}, {}),
    "fp8_e5m2_tensor": (fp8(E5M2, "tensor"), {"quantization_config": {"quant_method": "fp8",
                                                                      "activation_scheme": "dynamic"}}, {}),
    "fp8_modelopt": (fp8(E4M3, "tensor", static=True), {}, {}),
    "nvfp4_modelopt": (nvfp4("modelopt"), {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4",
                                                                   "producer": {"name": "modelopt"}, "ignore": []}}, {}),
    "nvfp4_compressed": (nvfp4("compressed"),
                         compressed("nvfp4-pack-quantized", FLOAT8 | {"num_bits": 4, "strategy": "tensor_group",
                                                                      "group_size": 16}), {}),
    "nvfp4_mlx": (nvfp4("mlx"), mlx(4, 16, "nvfp4"), {}),
    "mxfp4_native": (mx(4, "native"), {"quantization_config": {"quant_method": "mxfp4",
                                                               "modules_to_not_convert": ["lm_head"]}}, {}),
    "mxfp4_compressed": (mx(4, "compressed"),
                         compressed("mxfp4-pack-quantized", FLOAT8 | {"num_bits": 4, "strategy": "group",
                                                                      "group_size": 32}), {}),
    "mxfp4_mlx": (mx(4, "mlx"), mlx(4, 32, "mxfp4"), {}),
    "mxfp8_mlx": (mx(8, "mlx"), mlx(8, 32, "mxfp8"), {}),
    "affine4_g64": (affine(4, 64), mlx(4, 64), {"hidden_size": 192, "intermediate_size": 128}),
    "affine3_g32_f16": (affine(3, 32, F16), mlx(3, 32), {}),
    "affine6_g32": (affine(6, 32), mlx(6, 32), {}),
    "bnb_nf4_nested": (*bnb("nf4", True), {"hidden_size": 128, "intermediate_size": 192}),
    "bnb_fp4": (*bnb("fp4", False), {"hidden_size": 128, "intermediate_size": 64}),
}
# MLX quantises embeddings and heads too, and may give a layer its own widths.
EVERYTHING = {"affine4_g64": True, "affine3_g32_f16": False, "mxfp4_mlx": True}  # whether the head is the embedding
OWN_WIDTH = {"affine6_g32": ("model.layers.0.mlp.down_proj", affine(8, 32), {"group_size": 32, "bits": 8})}


def norm(x, weight):
    return x / numpy.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * weight


def logits_of(c, values, norms, embedding, head):
    s = c.sizes
    heads, kv_heads, dim = s["num_attention_heads"], s["num_key_value_heads"], s["head_dim"]
    x = embedding[IDS].astype(F64)
    angle = numpy.arange(len(IDS))[:, None] * 10000.0 ** (-numpy.arange(0, dim, 2) / dim)

    def rotate(t):
        a, b = t[..., :dim // 2], t[..., dim // 2:]
        cos, sin = numpy.cos(angle)[:, None], numpy.sin(angle)[:, None]
        return numpy.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    w = {key.rsplit(".", 1)[-1]: value.astype(F64) for key, value in values.items() if ".layers." in key}
    n = norm(x, norms[0])
    q = rotate((n @ w["q_proj"].T).reshape(-1, heads, dim))
    k = rotate((n @ w["k_proj"].T).reshape(-1, kv_heads, dim)).repeat(heads // kv_heads, axis=1)
    v = (n @ w["v_proj"].T).reshape(-1, kv_heads, dim).repeat(heads // kv_heads, axis=1)
    score = numpy.einsum("ihd,jhd->hij", q, k) / dim ** 0.5
    score = numpy.where(numpy.tri(len(IDS), dtype=bool), score, -numpy.inf)
    weight = numpy.exp(score - score.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    x = x + numpy.einsum("hij,jhd->ihd", weight, v).reshape(len(IDS), -1) @ w["o_proj"].T
    n = norm(x, norms[1])
    gate = n @ w["gate_proj"].T
    x = x + (gate / (1 + numpy.exp(-gate)) * (n @ w["up_proj"].T)) @ w["down_proj"].T
    return norm(x, norms[2]) @ head.astype(F64).T


def make(out, name):
    write, config, sizes = CASES[name]
    c = Checkpoint(name, sizes)
    s = c.sizes
    hidden, ffn, vocab = s["hidden_size"], s["intermediate_size"], s["vocab_size"]
    q, kv = s["num_attention_heads"] * s["head_dim"], s["num_key_value_heads"] * s["head_dim"]
    layer = "model.layers.0."
    shapes = {layer + "self_attn.q_proj": (q, hidden), layer + "self_attn.k_proj": (kv, hidden),
              layer + "self_attn.v_proj": (kv, hidden), layer + "self_attn.o_proj": (hidden, q),
              layer + "mlp.gate_proj": (ffn, hidden), layer + "mlp.up_proj": (ffn, hidden),
              layer + "mlp.down_proj": (hidden, ffn)}
    values = {module: write(c, module, *shape) for module, shape in shapes.items()}
    if name in OWN_WIDTH:
        module, own, keys = OWN_WIDTH[name]
        values[module] = own(c, module, *shapes[module])
        config = {key: value | {module: keys} for key, value in config.items()}
    if name in EVERYTHING:
        embedding = values["model.embed_tokens"] = write(c, "model.embed_tokens", vocab, hidden)
    else:
        embedding = c.dense("model.embed_tokens.weight", (vocab, hidden), 1 / hidden ** 0.5)
    tied = EVERYTHING.get(name, True)
    head = embedding
    if not tied:
        head = values["lm_head"] = write(c, "lm_head", vocab, hidden)
    names = [layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight", "model.norm.weight"]
    norms = []
    for each in names:
        value = (1 + 0.2 * c.random.standard_normal(hidden)).astype(BF16)
        c.tensors[each] = value
        norms.append(value.astype(F64))
    logits = logits_of(c, values, norms, embedding, head)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_file({key: numpy.ascontiguousarray(value) for key, value in c.tensors.items()},
              folder / "model.safetensors", metadata={"format": "pt"})
    text = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0, "max_position_embeddings": 512, "tie_word_embeddings": tied} | s | config
    (folder / "config.json").write_text(json.dumps(text, indent=1) + "\n")
    if name == "fp8_modelopt":  # older ones say it in a file of its own
        own = {"producer": {"name": "modelopt", "version": "0.35.0"},
               "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": None, "exclude_modules": ["lm_head"]}}
        (folder / "hf_quant_config.json").write_text(json.dumps(own, indent=1) + "\n")
    expected = {"ids": IDS, "deviation": float(f"{logits.std():.7g}"),
                "weights": {f"{module}.weight": hashlib.sha256(value.astype("<f4").tobytes()).hexdigest()
                            for module, value in values.items()},
                "logits": [[float(f"{x:.7g}") for x in row] for row in logits[[0, 1, 5, len(IDS) - 1]]]}
    (folder / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    print(name, expected["deviation"], (folder / "model.safetensors").stat().st_size)


def main():
    out = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "checkpoints"
    for name in CASES:
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(out, name)


if __name__ == "__main__":
    main()
