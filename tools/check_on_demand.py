#!/usr/bin/env python3
"""Compiles what is built on demand only (benches, tests for a machine with a GPU), so that it does not rot.

check_on_demand.py BUILD: reads BUILD/compile_commands.json and runs each such line with -fsyntax-only: no code is made,
which is most of the time. Prints what the compiler says and exits 1 if a file does not compile.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("bench", "tests/gpu")


def on_demand(build):
    """Each file once, with its command."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if any(file.is_relative_to(ROOT / folder) for folder in FOLDERS):
            commands.setdefault(file, entry)
    return commands


def check(entry):
    words = shlex.split(entry["command"])
    if pathlib.Path(words[0]).name == "ccache":  # what makes no object is not kept
        del words[0]
    at = words.index("-o")
    del words[at : at + 2]
    done = subprocess.run([*words, "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True)
    return done.returncode, done.stderr


def main(build):
    commands = on_demand(build)
    missing = [
        str(file.relative_to(ROOT))
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*.cc"))
        if file not in commands
    ]
    for name in missing:
        print(f"{name}: no target compiles it", file=sys.stderr)
    failed = bool(missing)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for code, words in pool.map(check, commands.values()):
            failed |= code != 0
            print(words, end="", file=sys.stderr)
    print(f"{len(commands)} files of {' and '.join(FOLDERS)} compile" if not failed else "see above")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
