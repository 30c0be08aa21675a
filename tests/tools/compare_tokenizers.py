#!/usr/bin/env python3
"""Compares ids and decoded texts of tokenizer.json files with those of Hugging Face's `tokenizers`.

    compare_tokenizers.py [--speed] tokenizer_peer FOLDER...

Each folder is searched for tokenizer.json. `tokenizers` 0.23 must be importable. Texts: the hard ones of
tools/tokenizer_texts.py, runs of one character, every character alone, and a megabyte of all kinds. Marks are
compared in both ways: as text and as marks. What Pagoda takes for a mark (no user forges one) is made
special in the library's copy too.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools"))
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizer_texts  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402


class Peer:
    """The program beside this one."""

    def __init__(self, program, *files):
        self.process = subprocess.Popen([program, *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        head = self.process.stderr.readline().decode()
        if not head.startswith("opened"):
            raise ValueError(head.strip())
        self.opened = head.strip()
        self.marks, self.prefix, self.suffix = self.ids(), self.ids(), self.ids()

    def number(self):
        return struct.unpack("<i", self.process.stdout.read(4))[0]

    def ids(self):
        count = self.number()
        return list(struct.unpack(f"<{count}i", self.process.stdout.read(4 * count)))

    def text(self):
        return self.process.stdout.read(self.number()).decode("utf-8")

    def ask(self, text, special):
        data = text.encode("utf-8")
        self.process.stdin.write(struct.pack("<II", int(special), len(data)) + data)
        self.process.stdin.flush()
        return self.ids(), self.text(), self.text(), self.number()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def library(path, marks):
    """The library's tokenizer, with our marks special, and nothing truncated or padded."""
    data = json.loads(path.read_text(encoding="utf-8"))
    for token in data["added_tokens"]:
        if token["id"] in marks:
            token["special"] = True
    data["truncation"] = data["padding"] = None
    return Tokenizer.from_str(json.dumps(data))


def has_broken_bytes(text):
    return "\ufffd" in text


def compare(peer, reference, text, special):
    """None, or what differs."""
    ids, with_marks, without_marks, _ = peer.ask(text, special)
    reference.encode_special_tokens = not special
    try:
        expected = reference.encode(text, add_special_tokens=False).ids
    except Exception:  # the library raises what it cannot encode
        return None if ids == [-1] else f"the library refuses {text[:40]!r}"
    marks = set(peer.marks)
    if not special and marks & set(expected) and not marks & set(ids):
        return None  # the library makes marks out of text; we never do
    if ids != expected:
        where = next((i for i, (a, b) in enumerate(zip(ids, expected)) if a != b), min(len(ids), len(expected)))
        return f"special={special} {text[:60]!r}: at {where} ours {ids[where:where + 8]} theirs {expected[where:where + 8]}"
    for ours, skip in ((with_marks, False), (without_marks, True)):
        theirs = reference.decode(expected, skip_special_tokens=skip)
        if ours != theirs and not (has_broken_bytes(theirs) and has_broken_bytes(ours)):
            return f"decoding {text[:60]!r} skip={skip}: ours {ours[:60]!r} theirs {theirs[:60]!r}"
    return None


def check(program, path, corpus, big, speed):
    peer = Peer(program, str(path))
    reference = library(path, set(peer.marks))
    added = [t["content"] for t in json.loads(path.read_text(encoding="utf-8"))["added_tokens"]]
    rng = random.Random(5)
    chosen = added[:40] + rng.sample(added, min(40, len(added)))
    around = [f"a{t}b" for t in chosen] + [f"  {t}  x" for t in chosen] + [t + t for t in chosen] + [t[:-1] for t in chosen] + [t.upper() for t in chosen]
    faults = []
    count = 0
    for special in (False, True):
        for text in corpus + around + [big]:
            count += 1
            fault = compare(peer, reference, text, special)
            if fault:
                faults.append(fault)
    if not speed:
        peer.close()
        print(f"{path.parent.name:32} {count} texts, {len(faults)} differ", flush=True)
        for fault in faults[:5]:
            print("   ", fault, flush=True)
        return len(faults)
    # The best of three, ours beside theirs.
    reference.encode_special_tokens = True
    ours = min(peer.ask(big, False)[3] for _ in range(3)) / 1e6
    theirs = []
    for _ in range(3):
        begin = time.perf_counter()
        reference.encode(big, add_special_tokens=False)
        theirs.append(time.perf_counter() - begin)
    longest = max((peer.ask(unit * (100_000 // len(unit.encode())), False)[3], unit) for unit in ["a", " ", "=", "1", "\n", "中", "😀", "\u0301", "a b"])
    peer.close()
    size = len(big.encode()) / 1e6
    print(f"{path.parent.name:32} {count} texts, {len(faults)} differ; {size / ours:.1f} MB/s, the library {size / min(theirs):.1f}; "
          f"100 KB of {longest[1]!r} in {longest[0] / 1e3:.1f} ms; {peer.opened}", flush=True)
    for fault in faults[:5]:
        print("   ", fault)
    return len(faults)


def check_safely(program, path, corpus, big, speed):
    try:
        return check(program, path, corpus, big, speed)
    except ValueError as error:
        print(f"{path.parent.name:32} refused: {error}", flush=True)
        return 1


def main():
    speed = "--speed" in sys.argv
    program, *folders = [argument for argument in sys.argv[1:] if argument != "--speed"]
    paths = sorted(p for folder in folders for p in pathlib.Path(folder).rglob("tokenizer.json"))
    if not paths:
        sys.exit("no tokenizer.json found")
    corpus = tokenizer_texts.corpus() + list(tokenizer_texts.every_character())
    big = tokenizer_texts.megabyte()
    # Side by side, but for speed, where nothing may disturb.
    workers = 1 if speed else os.cpu_count()
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        bad = sum(pool.map(check_safely, *zip(*[(program, path, corpus, big, speed) for path in paths])))
    print(f"{len(paths)} tokenizers, {bad} differences")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
