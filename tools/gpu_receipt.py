#!/usr/bin/env python3
"""Puts what programs of tests/gpu wrote ($PAGODA_RECEIPT) into tests/golden/gpu_receipt.tsv.

    tools/gpu_receipt.py GOLDEN RECEIPT...

Of each unit (architecture, source, constants) and kind of test the newest line is kept; one failure among the receipts
given together is a failure.
"""
import pathlib
import sys


def read(path):
    """Comments, and lines by (architecture, source, constants, kind): the hash and the verdict."""
    comments, lines = [], {}
    for number, text in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        if not text or text.startswith("#"):
            comments.append(text)
            continue
        fields = text.split("\t")
        if len(fields) != 6 or len(fields[0]) != 64 or fields[5] not in ("passed", "failed"):
            sys.exit(f"{path}:{number}: no line of a receipt")
        unit = tuple(fields[1:5])
        verdict = "failed" if lines.get(unit, ("", ""))[1] == "failed" else fields[5]
        lines[unit] = (fields[0], verdict)
    return comments, lines


def main(golden, receipts):
    comments, lines = read(golden)
    new = {}
    for path in receipts:
        for unit, (key, verdict) in read(path)[1].items():
            if unit in new and new[unit][0] != key:
                sys.exit(f"{path}: {' '.join(unit)} is another one than in the receipts before")
            failed = "failed" in (verdict, new.get(unit, ("", ""))[1])
            new[unit] = (key, "failed" if failed else "passed")
    lines.update(new)
    text = [*comments, *("\t".join([key, *unit, verdict]) for unit, (key, verdict) in sorted(lines.items()))]
    pathlib.Path(golden).write_text("\n".join(text) + "\n")
    print(f"{len(new)} lines from {len(receipts)} receipts; {len(lines)} in all")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
