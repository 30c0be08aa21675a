#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/<name>.jsonl: hard texts and the ids that Hugging Face `tokenizers` gives them.

One object a line: "text", "ids" (special tokens are text), "special" (their texts become
the tokens; absent: the same ids), "decoded" (what the ids say; absent: the text).

    pip install gguf==0.19.0 tokenizers==0.23.3
    tools/make_tokenizer_goldens.py models tests/golden/tokenizer

The vocabularies come from the GGUF files; the pipelines around them are those of the models' own tokenizer.json.
"""
import json
import pathlib
import sys

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tokenizer_texts import corpus

CONTROL, USER_DEFINED, BYTE = 3, 4, 6

class Vocabulary:
    """The tokenizer of a GGUF file."""

    def __init__(self, path):
        fields = gguf.GGUFReader(path).fields
        get = lambda key: fields["tokenizer.ggml." + key].contents() if "tokenizer.ggml." + key in fields else None
        self.tokens, self.types = get("tokens"), get("token_type")
        self.merges, self.scores = get("merges"), get("scores")

    def ids(self):
        return {token: i for i, token in enumerate(self.tokens)}

    def of_type(self, kind):
        return [token for token, t in zip(self.tokens, self.types) if t == kind]


def add_tokens(tokenizer, vocabulary):
    tokenizer.add_tokens([AddedToken(t, normalized=False, special=False) for t in vocabulary.of_type(USER_DEFINED)])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in vocabulary.of_type(CONTROL)])
    return tokenizer


def smollm2(vocabulary):
    merges = [tuple(m.split(" ")) for m in vocabulary.merges]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary.ids(), merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    return add_tokens(tokenizer, vocabulary)


def merges_from_scores(vocabulary):
    """The merges that transformers derives from a SentencePiece model: all ways to make each piece, best score first,
    of one piece the longest left part first."""
    plain = {t: s for t, s, k in zip(vocabulary.tokens, vocabulary.scores, vocabulary.types) if k not in (CONTROL, BYTE, USER_DEFINED)}
    merges = []
    for piece, score in plain.items():
        for i in range(1, len(piece)):
            if piece[:i] in plain and piece[i:] in plain:
                merges.append((score, i, len(piece) - i, piece[:i], piece[i:]))
    merges.sort(key=lambda m: m[:3], reverse=True)
    return [m[3:] for m in merges]


def gemma3(vocabulary):
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary.ids(), merges=merges_from_scores(vocabulary), unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return add_tokens(tokenizer, vocabulary)


MODELS = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf", smollm2),
    "gemma3": ("gemma-3-270m-q4_k_m.gguf", gemma3),
}


def main():
    folder, out = map(pathlib.Path, sys.argv[1:3])
    for name, (file, build) in MODELS.items():
        tokenizer = build(Vocabulary(folder / file))
        with open(out / f"{name}.jsonl", "w", encoding="utf-8") as lines:
            for text in corpus():
                tokenizer.encode_special_tokens = True
                line = {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}
                decoded = tokenizer.decode(line["ids"], skip_special_tokens=False)
                if decoded != text:
                    line["decoded"] = decoded
                tokenizer.encode_special_tokens = False
                special = tokenizer.encode(text, add_special_tokens=False).ids
                if special != line["ids"]:
                    line["special"] = special
                lines.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
