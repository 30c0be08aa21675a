#!/usr/bin/env python3
"""Compares how random regular expressions cut hard texts with how Hugging Face's `tokenizers` cuts them.

    compare_expressions.py tokenizer_peer [COUNT [SEED]]

Expressions are in Oniguruma's syntax, in which tokenizer.json writes them. One that the library refuses counts for nothing.
"""
import json
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tools")]

import make_tokenizer_json_goldens as small  # noqa: E402
from compare_tokenizers import Peer  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

CHARACTERS = ["a", "b", "l", "1", " ", "t", "\u00e9", "\u4e2d", "'", "."]
CLASSES = [r"\w", r"\d", r"\s", r"\S", r"\W", r"\D", r"\h", r"\p{L}", r"\p{Lu}", r"\P{L}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{M}", r"\p{Han}", r"\p{Alphabetic}", "[ab]", "[^a]", r"[^\s\p{L}]",
           r"[\w-]", r"[a-m\d]", "[]a]", "[a[bc]d]", r"[\n\r]", r"[^\S ]", "[[:punct:]]", r"[^\d\s]", r"\.", r"\n", r"\x41"]
PLACES = [r"\b", r"\B", "^", "$", r"\A", r"\z", r"\Z"]
QUANTIFIERS = ["", "", "", "", "*", "+", "?", "{1,2}", "{2}", "{,2}", "{2,}", "*?", "+?", "??", "{1,2}?", "++", "*+", "?+", "{1,2}+", "{2}?", "{0}"]
GROUPS = ["(", "(?:", "(?i:", "(?>", "(?m:"]
LOOKS = ["(?=", "(?!"]


class Writer:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def choices(self, depth):
        return "|".join(self.sequence(depth) for _ in range(self.rng.choice([1, 1, 2, 3])))

    def sequence(self, depth):
        return "".join(self.item(depth) for _ in range(self.rng.choice([1, 1, 2, 3])))

    def item(self, depth):
        kind = self.rng.random()
        if depth and kind < 0.15:
            return self.rng.choice(GROUPS) + self.choices(depth - 1) + ")" + self.rng.choice(QUANTIFIERS)
        if depth and kind < 0.2:
            return self.rng.choice(LOOKS) + self.choices(depth - 1) + ")"
        if depth and kind < 0.25:
            return self.rng.choice(["(?<=", "(?<!"]) + self.rng.choice(CLASSES) + ")"
        if depth and kind < 0.27:
            return "(?i)"
        if kind < 0.35:
            return self.rng.choice(PLACES)
        return self.rng.choice(CHARACTERS + CLASSES) + self.rng.choice(QUANTIFIERS)


def difference(program, path, expression):
    """None, or what differs. Ids of 256 and more are bytes that do not begin a piece."""
    cuts = {"type": "Sequence", "pretokenizers": [small.split({"Regex": expression}, "Isolated"), small.BYTE_LEVEL]}
    text = json.dumps(small.tokenizer(small.byte_model(marked=True), None, cuts), ensure_ascii=False)
    try:
        library = Tokenizer.from_str(text)
    except Exception:
        return None
    path.write_text(text, encoding="utf-8")
    try:
        peer = Peer(program, str(path))
    except ValueError as error:
        return f"refused: {error}"
    found = None
    for text in small.TEXTS:
        ours, theirs = peer.ask(text, True)[0], library.encode(text, add_special_tokens=False).ids
        if ours != theirs:
            found = f"{text!r}: ours {ours[:20]}, theirs {theirs[:20]}"
            break
    peer.close()
    return found


def main():
    program, *numbers = sys.argv[1:]
    count, seed = [int(n) for n in numbers] + [400, 1][len(numbers):]
    writer, faults = Writer(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            expression = writer.choices(2)
            found = difference(program, pathlib.Path(folder) / "tokenizer.json", expression)
            if found:
                faults += 1
                print(f"{expression}\n    {found}", flush=True)
    print(f"{count} expressions, {faults} differ")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
