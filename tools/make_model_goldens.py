#!/usr/bin/env python3
"""Makes tests/golden/models/<case>.json: what transformers computes for small models of each family, in float32.

Needs: pip install torch transformers==5.24.0 numpy
A file holds the text of a config.json as people write it, the same as transformers saves it, the tensors' names and
shapes as the model's class has them, ids, and the logits at a few positions. The weights are no part of it: they follow
from names and indices (see `weight`; tests/fixtures/hf_model.h makes the same ones).
"""
import json
import pathlib
import sys
import tempfile

import numpy
import torch
from transformers import AutoConfig, AutoModelForCausalLM

MASK = (1 << 64) - 1
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5}
QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "rms_norm_eps": 1e-6}
QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "rms_norm_eps": 1e-6}
GEMMA3 = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "rms_norm_eps": 1e-6,
          "hidden_activation": "gelu_pytorch_tanh"}
MISTRAL = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_act": "silu"}


def sizes(layers, hidden, heads, kv_heads, head_dim, ffn, vocab, context=512):
    return {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim, "intermediate_size": ffn, "vocab_size": vocab,
            "max_position_embeddings": context}


SHORT = [1 + 0.17 * (i % 5) for i in range(32)]
LONG = [2 + 0.5 * i for i in range(32)]
CASES = {
    "llama_default": ("BF16", 45, LLAMA | sizes(3, 80, 5, 1, 64, 112, 61) | {
        "rope_theta": 10000.0, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": [2, 3]}),
    "llama_tied_default_head_dim": ("F32", 30, LLAMA | {k: v for k, v in sizes(2, 192, 3, 3, 64, 96, 67).items()
                                                        if k not in ("head_dim", "num_key_value_heads")} | {
        "tie_word_embeddings": True, "rope_theta": 500000}),
    "llama_linear": ("F16", 40, LLAMA | sizes(2, 72, 6, 2, 80, 96, 61) | {
        "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 2.5}}),
    "llama_dynamic": ("BF16", 40, LLAMA | sizes(2, 72, 6, 3, 64, 96, 61, context=48) | {
        "rope_theta": 10000.0, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    "llama_llama3": ("BF16", 60, LLAMA | sizes(3, 96, 6, 2, 128, 104, 71) | {
        "rope_theta": 500000.0, "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32}}),
    "llama_yarn": ("BF16", 50, LLAMA | sizes(2, 72, 3, 1, 80, 88, 61, context=64) | {
        "rope_theta": 10000.0, "rope_scaling": {
            "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}),
    "llama_yarn_untruncated": ("BF16", 50, LLAMA | sizes(2, 72, 3, 1, 96, 88, 61, context=64) | {
        "attention_bias": True, "mlp_bias": True, "rope_parameters": {
            "rope_theta": 20000.0, "rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 24,
            "truncate": False, "beta_fast": 8, "beta_slow": 0.5, "mscale": 1.2, "mscale_all_dim": 0.7}}),
    "llama_longrope": ("BF16", 40, LLAMA | sizes(2, 72, 6, 2, 64, 88, 61, context=256) | {
        "rope_theta": 10000.0, "rope_scaling": {
            "rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG,
            "original_max_position_embeddings": 40}}),
    "mistral_window": ("BF16", 40, MISTRAL | sizes(3, 96, 4, 2, 64, 88, 61) | {
        "rope_theta": 10000.0, "sliding_window": 7, "rms_norm_eps": 1e-5}),
    "mistral_without_window": ("BF16", 40, MISTRAL | sizes(2, 96, 4, 2, 64, 88, 61) | {
        "rope_theta": 1e6, "sliding_window": None, "rms_norm_eps": 1e-5}),
    "qwen2_biases": ("BF16", 45, QWEN2 | sizes(2, 96, 6, 2, 96, 104, 79) | {
        "rope_theta": 1000000.0, "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": 5,
        "max_window_layers": 0}),
    "qwen2_windows": ("F16", 45, QWEN2 | sizes(3, 96, 3, 1, 64, 104, 61) | {
        "rope_theta": 1000000.0, "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}),
    "qwen3_default": ("BF16", 45, QWEN3 | sizes(3, 96, 6, 2, 128, 104, 79) | {
        "rope_theta": 1000000, "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": None,
        "max_window_layers": 3, "attention_bias": False, "rope_scaling": None}),
    "qwen3_yarn_bias": ("BF16", 55, QWEN3 | sizes(2, 96, 5, 1, 256, 104, 61, context=128) | {
        "attention_bias": True, "tie_word_embeddings": False, "layer_types": ["sliding_attention", "full_attention"],
        "use_sliding_window": True, "sliding_window": 9, "rope_theta": 1000000, "rope_scaling": {
            "rope_type": "yarn", "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32,
            "attention_factor": 1.3}}),
    "gemma3_by_type": ("BF16", 50, GEMMA3 | sizes(7, 96, 4, 2, 256, 104, 73) | {
        "query_pre_attn_scalar": 168, "sliding_window": 8, "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}),
    "gemma3_pattern_softcap": ("F32", 40, GEMMA3 | sizes(4, 96, 6, 3, 192, 88, 61) | {
        "query_pre_attn_scalar": 192, "sliding_window": 5, "sliding_window_pattern": 2, "rope_theta": 1000000.0,
        "rope_local_base_freq": 5000.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "attn_logit_softcapping": None, "final_logit_softcapping": 20.0, "attention_bias": True}),
    "gemma3_yarn": ("BF16", 40, GEMMA3 | sizes(3, 96, 2, 1, 96, 88, 61, context=64) | {
        "query_pre_attn_scalar": 96, "sliding_window": 6,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"], "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
                               "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}),
}


def fnv(name):
    """FNV-1a, 64 bits."""
    state = 0xCBF29CE484222325
    for byte in name.encode():
        state = (state ^ byte) * 0x100000001B3 & MASK
    return state


def integers(name, count):
    """`count` integers from -128 to 127: the top bytes of splitmix64 at the name's hash + index."""
    x = numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15) + numpy.uint64(fnv(name))
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    x = x ^ (x >> numpy.uint64(31))
    return (x >> numpy.uint64(56)).astype(numpy.int64) - 128


def weight(name, shape, shifted_norms):
    """Values that bf16, f16 and f32 can all hold."""
    k = integers(name, int(numpy.prod(shape))).reshape(shape)
    if len(shape) == 2:
        exponent = 6 if "embed_tokens" in name else 6 + int(numpy.ceil(numpy.log2(shape[1]) / 2))
        return k * 2.0 ** -exponent
    if name.endswith(".bias"):
        return k * 2.0 ** -9
    return (0 if shifted_norms else 1) + (k >> 2) / 128


def make(name, dtype, count, config):
    with tempfile.TemporaryDirectory() as folder:
        text = json.dumps(config, indent=1)
        (pathlib.Path(folder) / "config.json").write_text(text)
        parsed = AutoConfig.from_pretrained(folder)
        model = AutoModelForCausalLM.from_config(parsed, attn_implementation="eager", dtype=torch.float32)
        parsed.save_pretrained(folder)
        saved = (pathlib.Path(folder) / "config.json").read_text()
    tensors = {key: list(value.shape) for key, value in model.state_dict().items()}
    if parsed.tie_word_embeddings:
        del tensors["lm_head.weight"]
    shifted = config["model_type"] == "gemma3_text"
    state = {key: torch.tensor(weight(key, shape, shifted), dtype=torch.float32) for key, shape in tensors.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    ids = [int(k + 128) * 7919 % config["vocab_size"] for k in integers("ids of " + name, count)]
    with torch.no_grad():
        logits = model.eval()(torch.tensor([ids])).logits[0].double().numpy()
    positions = sorted({0, 1, 2, 5, 8, 13, 21, 29, count // 2, count - 2, count - 1} & set(range(count)))
    return {"case": name, "dtype": dtype, "config": text, "saved_config": saved,
            "tensors": [f"{key} {' '.join(map(str, shape))}" for key, shape in tensors.items()], "ids": ids,
            "positions": positions, "deviation": float(f"{logits.std():.7g}"),
            "logits": [[float(f"{value:.7g}") for value in logits[position]] for position in positions]}


def main():
    out = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "models"
    out.mkdir(parents=True, exist_ok=True)
    for name, (dtype, count, config) in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        golden = make(name, dtype, count, config)
        lines = [f'"{key}": {json.dumps(value)}' for key, value in golden.items() if key != "logits"]
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in golden["logits"])
        (out / f"{name}.json").write_text("{" + ",\n".join(lines) + ',\n"logits": [\n' + rows + "]}\n")
        print(name, golden["deviation"])


if __name__ == "__main__":
    main()
