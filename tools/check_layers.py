#!/usr/bin/env python3
"""Holds the sources to the ladder that src/CMakeLists.txt declares.

Every rung is a line `pagoda_rung(name dependencies...)`. A file of a rung may include its own folder, the folders of
those dependencies, and pagoda/types.h; only some may include the rest of include/pagoda. The dependencies must have no
cycle. Prints each breach as file:line and exits 1 if there is one.
"""
import argparse
import pathlib
import re
import sys

SOURCES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
FACADE_USERS = {"api", "server", "apps", "include"}
BANNED_FOLDERS = {"utils", "util", "common", "helpers", "helper", "misc"}
MAX_DEPTH = 4


def read_ladder(root):
    text = (root / "src" / "CMakeLists.txt").read_text()
    ladder = {}
    for name, dependencies in re.findall(r"^pagoda_rung\((\w+)([^)]*)\)", text, re.M):
        ladder[name] = set(dependencies.split())
    return ladder


def find_cycle(ladder):
    done, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name):] + [name]
        if name in done:
            return None
        path.append(name)
        for dependency in sorted(ladder.get(name, ())):
            cycle = visit(dependency)
            if cycle:
                return cycle
        path.pop()
        done.add(name)
        return None

    for name in sorted(ladder):
        cycle = visit(name)
        if cycle:
            return cycle
    return None


def allowed(rung, target, ladder):
    folder = target.split("/")[0]
    if target == "pagoda/types.h":
        return True
    if folder == "pagoda":
        return rung in FACADE_USERS
    if rung == "include":
        return False
    if rung == "apps":
        return folder in {"apps", "base", "server"}
    return folder == rung or folder in ladder[rung]


def check_file(path, rung, root, ladder):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match and not allowed(rung, match.group(1), ladder):
            yield f'{path.relative_to(root)}:{number}: {rung} may not include "{match.group(1)}"'


def check(root):
    ladder = read_ladder(root)
    if not ladder:
        yield "src/CMakeLists.txt: declares no rung"
    cycle = find_cycle(ladder)
    if cycle:
        yield "src/CMakeLists.txt: a cycle: " + " -> ".join(cycle)
    for name, dependencies in ladder.items():
        for dependency in sorted(dependencies - ladder.keys()):
            yield f"src/CMakeLists.txt: {name} names {dependency}, which is no rung"
    for top in ("src", "apps", "include"):
        for path in sorted((root / top).rglob("*")):
            parts = path.relative_to(root / top).parts
            if path.is_dir():
                if path.name in BANNED_FOLDERS:
                    yield f"{path.relative_to(root)}: a folder needs a name that says what is in it"
                if len(parts) > MAX_DEPTH:
                    yield f"{path.relative_to(root)}: deeper than {MAX_DEPTH} folders"
            elif path.suffix in SOURCES:
                rung = parts[0] if top == "src" else top
                if top == "src" and rung not in ladder:
                    yield f"{path.relative_to(root)}: {rung} is no declared rung"
                else:
                    yield from check_file(path, rung, root, ladder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    breaches = list(check(parser.parse_args().root))
    for breach in breaches:
        print(breach)
    sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main()
