#!/usr/bin/env python3
"""What each rounding of a GPU's plan costs: a Llama of a GGUF file in float, with roundings where CUDA's stages make them
(tests/gpu/models/goldens.cc measures the sum of all), alone, left out, or of another kind.

    tools/rounding_study.py MODEL.gguf GOLDEN.txt TOKENS [NAME=KIND,… | -NAME,…]...

GOLDEN.txt: ids and log-probabilities as in tests/golden/logprobs. Each further argument is a run: roundings by name, or
all in bf16 with changes ("-q_k_v,w_head=f16"). Without any: all, each alone, and all but each. Names: STAGES below and
w_q … w_head (the weights of a product); kinds: bf16, f16, two (terms of bf16). Printed: mean and greatest difference of
log-probabilities, and KL, against the run without roundings.

Needs: pip install gguf==0.19.0 numpy
"""
import sys

import numpy
from gguf import GGUFReader, dequantize

STAGES = {  # where a number is rounded
    "norm_attn": "input of the products of queries, keys and values",
    "q_k_v": "output of these",
    "query": "queries after RoPE",
    "key": "keys in the cache",
    "value": "values in the cache",
    "weight": "weights of attention",
    "attention": "output of attention, input of its product",
    "norm_ffn": "input of gate and up",
    "gated": "activation(gate) · up, input of down",
    "norm_head": "input of the head",
}
WEIGHTS = {
    "w_q": "attn_q", "w_k": "attn_k", "w_v": "attn_v", "w_o": "attn_output", "w_gate": "ffn_gate", "w_up": "ffn_up",
    "w_down": "ffn_down", "w_head": None,
}


def bf16(x):
    bits = numpy.ascontiguousarray(x, numpy.float32).view(numpy.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & numpy.uint32(0xFFFF0000)
    return rounded.astype(numpy.uint32).view(numpy.float32)


def f16(x):
    return x.astype(numpy.float16).astype(numpy.float32)


def two(x):
    high = bf16(x)
    return high + bf16(x - high)


KINDS = {"bf16": bf16, "f16": f16, "two": two}


class Model:
    def __init__(self, path, ids):
        reader = GGUFReader(path)
        self.tensors = {t.name: dequantize(t.data, t.tensor_type).astype(numpy.float32) for t in reader.tensors}
        self.ids = ids

        def key(name):
            return reader.fields["llama." + name].contents()

        self.layers, self.heads = key("block_count"), key("attention.head_count")
        self.kv_heads, self.epsilon = key("attention.head_count_kv"), key("attention.layer_norm_rms_epsilon")
        self.dim = key("embedding_length") // self.heads
        pairs = numpy.arange(self.dim // 2)
        angles = numpy.arange(len(ids))[:, None] * key("rope.freq_base") ** (-2.0 * pairs / self.dim)
        self.turns = [t.astype(numpy.float32)[:, None, :] for t in (numpy.cos(angles), numpy.sin(angles))]

    def rotated(self, x):  # (tokens, heads, dim); neighbours are pairs in a GGUF's Llama
        cos, sin = self.turns
        out = numpy.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 1::2] * cos + x[..., 0::2] * sin
        return out

    def normed(self, x, name):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * self.tensors[name + ".weight"]

    def attention(self, query, key, value, at):
        unseen = numpy.triu(numpy.full((len(self.ids), len(self.ids)), -numpy.inf, numpy.float32), 1)
        out = numpy.empty_like(query)
        for head in range(self.heads):
            group = head * self.kv_heads // self.heads
            scores = query[:, head] @ key[:, group].T / numpy.sqrt(numpy.float32(self.dim)) + unseen
            weights = numpy.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = at("weight", weights) @ value[:, group] / weights.sum(-1, keepdims=True)
        return out.reshape(len(self.ids), -1)

    def logprobs(self, roundings):
        def at(name, x):
            return roundings[name](x) if name in roundings else x

        def product(x, layer, name):
            own = WEIGHTS[name]
            tensor = f"blk.{layer}.{own}.weight" if own else "output.weight"
            return x @ at(name, self.tensors.get(tensor, self.tensors["token_embd.weight"])).T

        x = self.tensors["token_embd.weight"][self.ids]
        for layer in range(self.layers):
            h = at("norm_attn", self.normed(x, f"blk.{layer}.attn_norm"))
            query, key, value = (
                at("q_k_v", product(h, layer, name)).reshape(len(self.ids), -1, self.dim) for name in ("w_q", "w_k", "w_v")
            )
            query, key = at("query", self.rotated(query)), at("key", self.rotated(key))
            out = self.attention(query, key, at("value", value), at)
            x = x + product(at("attention", out), layer, "w_o")
            h = at("norm_ffn", self.normed(x, f"blk.{layer}.ffn_norm"))
            gate, up = product(h, layer, "w_gate"), product(h, layer, "w_up")
            x = x + product(at("gated", gate / (1 + numpy.exp(-gate)) * up), layer, "w_down")
        logits = product(at("norm_head", self.normed(x, "output_norm")), 0, "w_head").astype(numpy.float64)
        logits -= logits.max(-1, keepdims=True)
        return logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))


def parsed(text):
    """A run's roundings."""
    all_of_them = dict.fromkeys([*STAGES, *WEIGHTS], bf16)
    changes = text.split(",")
    found = dict(all_of_them) if any(change.startswith("-") for change in changes) else {}
    for change in changes:
        name, _, kind = change.removeprefix("-").partition("=")
        if name not in all_of_them or (kind and kind not in KINDS):
            sys.exit(f"{change}: names are {', '.join(all_of_them)}; kinds {', '.join(KINDS)}")
        if kind:
            found[name] = KINDS[kind]
        elif change.startswith("-"):
            found.pop(name, None)
        else:
            found[name] = bf16
    return found


def main(path, golden, tokens, runs):
    lines = [line.split() for line in open(golden)][: int(tokens)]
    ids = numpy.array([int(line[0]) for line in lines])
    model = Model(path, ids)
    exact = model.logprobs({})
    next_ids = (numpy.arange(len(ids) - 1), ids[1:])
    of_golden = numpy.array([float(line[1]) for line in lines[1:]])
    print(f"without roundings against {golden}: mean {numpy.abs(exact[next_ids] - of_golden).mean():.1e}")
    if not runs:
        names = [*STAGES, *WEIGHTS]
        runs = [",".join(names), *names, *("-" + name for name in names)]
    for run in runs:
        got = model.logprobs(parsed(run))
        differences = numpy.abs(got - exact)[next_ids]
        divergence = (numpy.exp(exact) * (exact - got)).sum(-1).mean()
        print(f"{run:48s} mean {differences.mean():.4f}  most {differences.max():.3f}  KL {divergence:.2e}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:4], sys.argv[4:])
