#!/usr/bin/env python3
"""Times Pagoda and llama.cpp's llama-bench in turn on one machine, and prints medians and ratios.

    tools/bench_beside.py --peer PATH/llama-bench MODEL.gguf [MODEL.gguf...] [--rounds 5] [--threads 2] [--out FILE.jsonl]

A shared machine drifts, so the two take turns: in every round each test runs once with either program, and figures are
medians over the rounds. With --out, Pagoda's own lines (as `pagoda bench --json` prints them) are appended to a file,
with commit, date, and the peer's rate beside them.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# (name, prompt, generate, depth)
TESTS = [("prefill 512", 512, 0, 0), ("decode", 0, 64, 0), ("decode after 2048", 0, 32, 2048)]


def peer_rate(program, model, threads, prompt, generate, depth):
    command = [program, "-m", model, "-t", str(threads), "-p", str(prompt), "-n", str(generate), "-d", str(depth),
               "-r", "1", "-o", "json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(output)[0]["avg_ts"]


def own_line(program, model, threads, precision, prompt, generate, depth):
    command = [program, "bench", model, "--threads", str(threads), "--precision", precision, "--json", "--samples", "1",
               "-p", str(prompt), "-n", str(generate), "-d", str(depth), "-b", "1"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = "prefill" if prompt else "decode"
    return next(line for line in map(json.loads, lines) if line["test"] == wanted)


def measure(options, model, test):
    name, prompt, generate, depth = test
    rates = {"peer": [], "standard": [], "high": []}
    lines = {}
    for _ in range(options.rounds):
        rates["peer"].append(peer_rate(options.peer, model, options.threads, prompt, generate, depth))
        for precision in ("standard", "high"):
            line = own_line(options.pagoda, model, options.threads, precision, prompt, generate, depth)
            rates[precision].append(line["tok_s"])
            lines[precision] = line
    medians = {who: statistics.median(values) for who, values in rates.items()}
    print(f"{pathlib.Path(model).stem:36} {name:18} {medians['peer']:8.1f} {medians['standard']:9.1f} "
          f"{medians['standard'] / medians['peer']:6.2f} x {medians['high']:9.1f} "
          f"{medians['high'] / medians['standard']:5.0%}", flush=True)
    for precision, line in lines.items():
        line["tok_s"] = medians[precision]
        line["ms_per_step"] = 1000 * (prompt or 1) / medians[precision]
        line.update(samples=options.rounds, peer="llama.cpp", peer_tok_s=medians["peer"], peer_build=options.peer_build)
    return lines.values()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--peer", required=True, help="the path of llama-bench")
    parser.add_argument("--peer-build", default="b11434", help="its version, kept in the results")
    parser.add_argument("--pagoda", default=str(ROOT / "build/release/bin/pagoda"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()

    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True,
                            check=True).stdout.strip()
    print(f"{'model':36} {'test':18} {'peer':>8} {'standard':>9} {'ratio':>8} {'high':>9} {'of it':>5}   tok/s")
    results = [line for model in options.models for test in TESTS for line in measure(options, model, test)]
    if options.out:
        date = datetime.date.today().isoformat()
        with options.out.open("a") as file:
            for line in results:
                file.write(json.dumps(line | {"commit": commit, "date": date}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
