#!/usr/bin/env python3
"""The figures that Pagoda is held to on a GPU, row by row.

    tools/bench_gpu.py --list
    tools/bench_gpu.py [ROW…] [--keep FOLDER] [--again]

A row is one name: a test with a time limit and, where there is one, the figure wanted. Names may end in *. Lines go to the
*.jsonl of --keep (bench/results), each with row, commit and date; a row that has lines of this commit there is passed over,
so that a run that was cut short goes on where it stopped. A row that fails or runs over its limit leaves what it
printed in FOLDER/ROW.log, and the others go on; the exit status is then 1. The last lines are a table.

`ahead` compiles for an H200 the kernels that the rows need, so that no row's time goes into that. They lie in --cache, and serve
where the same version of NVRTC is found: those of another one are made again.
The rows check-… are no figures: tests of tests/gpu, the memory checkers, and a new receipt.
"""
import argparse
import datetime
import fnmatch
import json
import math
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAMPLES = 3
DEPTH = 2048


class Failed(Exception):
    """One sentence: why a row has no figure."""


class Run:
    """What all rows share: where programs, configurations and results are."""

    def __init__(self, arguments):
        self.bin = pathlib.Path(arguments.bin)
        self.configs = pathlib.Path(arguments.configs)
        self.keep = pathlib.Path(arguments.keep)
        self.cache = pathlib.Path(arguments.cache)
        self.device = arguments.device
        self.tokenizer = arguments.tokenizer
        self.steps = arguments.steps
        self.depth = arguments.depth
        self.requests = arguments.requests
        self.commit = arguments.commit or commit_here()
        self.log = None
        self.deadline = 0.0

    def environment(self):
        # The program keeps its kernels in $XDG_CACHE_HOME/pagoda, a folder of its own and of nobody else.
        self.cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        return dict(os.environ, XDG_CACHE_HOME=str(self.cache))

    def call(self, command, **more):
        """Output of a program within what is left of the row's time; also kept in the row's log."""
        command = [str(part) for part in command]
        self.log.write("$ " + " ".join(command) + "\n")
        self.log.flush()
        left = max(1.0, self.deadline - time.monotonic())
        # A session of its own: what a checker starts ends with it.
        process = subprocess.Popen(command, cwd=ROOT, env=self.environment() | more, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            self.log.write(output)
            raise Failed(f"it ran over its limit ({left:.0f} s were left)") from None
        self.log.write(output)
        if process.returncode != 0:
            last = output.strip().splitlines()[-1:] or ["nothing was printed"]
            raise Failed(f"exit {process.returncode}: {last[0]}")
        return output


def commit_here():
    try:
        return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], check=True, text=True,
                              capture_output=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        sys.exit("pagoda: this is no git checkout: --commit says what is measured")


def objects(output):
    """The JSON objects among a program's lines."""
    found = []
    for line in output.splitlines():
        if line.startswith("{"):
            found.append(json.loads(line))
    return found


# Kinds of rows. Each gives (file, lines).

def model(run, config, weights, tests, head="", kv="auto", more=()):
    command = [run.bin / "pagoda", "bench", run.configs / f"{config}.json", "--dummy-weights", "--format", weights,
               "--device", run.device, "--kv-dtype", kv, "--samples", SAMPLES, "--json", *more]
    if head:
        command += ["--head-format", head]
    lines = objects(run.call(command + tests(run)))
    for line in lines:
        line["head"] = head or weights
    return "h200_models", lines


def decode(*batches):
    return lambda run: ["-p", "0", "-n", str(run.steps), "-d", str(run.depth), "-b", ",".join(map(str, batches))]


def prefill(run):
    return ["-p", str(run.depth), "-n", "0", "-d", "0", "-b", "1"]


def program(run, file, name, *arguments):
    return file, objects(run.call([run.bin / name, *arguments]))


def step_gap(run, config, weights):
    return "h200_step_gap", objects(run.call([run.bin / "step_gap", run.configs / f"{config}.json", weights,
                                              run.cache / "pagoda"]))


def write_empty_checkpoint(config_path, folder):
    """A directory of the right names and sizes whose tensors are all zero: a file with a hole. For times of loading."""
    config = json.loads(config_path.read_text())
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    dim = config.get("head_dim", hidden // config["num_attention_heads"])
    query, kv = dim * config["num_attention_heads"], dim * config["num_key_value_heads"]
    tensors = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    if not config.get("tie_word_embeddings", False):
        tensors["lm_head.weight"] = [config["vocab_size"], hidden]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors |= {at + "self_attn.q_proj.weight": [query, hidden], at + "self_attn.k_proj.weight": [kv, hidden],
                    at + "self_attn.v_proj.weight": [kv, hidden], at + "self_attn.o_proj.weight": [hidden, query],
                    at + "mlp.gate_proj.weight": [ffn, hidden], at + "mlp.up_proj.weight": [ffn, hidden],
                    at + "mlp.down_proj.weight": [hidden, ffn], at + "input_layernorm.weight": [hidden],
                    at + "post_attention_layernorm.weight": [hidden]}
        if config["architectures"] == ["Qwen3ForCausalLM"]:
            tensors |= {at + "self_attn.q_norm.weight": [dim], at + "self_attn.k_norm.weight": [dim]}
    header, end = {}, 0
    for name, shape in tensors.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config_path.read_text())
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def start(run, config):
    folder = run.cache / f"empty-{config}"
    write_empty_checkpoint(run.configs / f"{config}.json", folder)
    walls = []
    for _ in range(SAMPLES + 1):
        begin = time.monotonic()
        run.call([run.bin / "pagoda", "score", folder, "--tokens", "1,2,3,4,5", "--device", run.device, "--json"])
        walls.append(time.monotonic() - begin)
    walls = walls[1:]  # the first brings the file into the page cache and makes kernels
    return "h200_models", [{"op": "start", "model": config, "what": "exec to logits of 5 tokens, safetensors directory of zeros "
                            "in the page cache, kernels kept", "wall_s": sorted(round(w, 2) for w in walls),
                            "median_s": round(sorted(walls)[len(walls) // 2], 2)}]


def serve(run, config, weights, loads, vocabulary=40000):
    """Loads are (streams, prompt, tokens); ids of prompts are below `vocabulary`, which the tokenizer has to have."""
    if not pathlib.Path(run.tokenizer).is_dir():
        raise Failed(f"--tokenizer {run.tokenizer}: there is no such directory")
    most = max(streams for streams, _, _ in loads)
    context = max(prompt + tokens for _, prompt, tokens in loads) + 64
    address = run.cache / "serve.address"
    log = open(address, "w+")
    # Port 0: the system's choice, which the server prints.
    server = subprocess.Popen([str(part) for part in (
        run.bin / "pagoda", "serve", run.configs / f"{config}.json", "--dummy-weights", "--format", weights, "--tokenizer",
        run.tokenizer, "--device", run.device, "--max-running", most, "--max-queued", 1024, "--ctx", context, "--port",
        0, "--no-request-log", "--no-page", "--kv-tokens", most * context)], cwd=ROOT, env=run.environment(), stdout=log,
        stderr=log)
    try:
        url = wait_until_served(run, server, address)
        lines = []
        for streams, prompt, tokens in loads:
            output = run.call([sys.executable, ROOT / "bench" / "serve_load.py", url, "--streams", streams, "--prompt",
                               prompt, "--tokens", tokens, "--vocabulary", vocabulary, "--pid", server.pid])
            line = objects(output)[-1] | {"format": weights}
            if line["ok"] != line["requests"]:
                raise Failed(f"only {line['ok']} of {line['requests']} requests were answered")
            lines.append(line)
        return "h200_serve", lines
    finally:
        server.terminate()
        try:
            server.wait(timeout=40)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.seek(0)
        run.log.write(log.read())
        log.close()


def wait_until_served(run, server, address):
    while time.monotonic() < run.deadline:
        if server.poll() is not None:
            raise Failed(f"the server ended ({server.returncode}): {address.read_text().strip().splitlines()[-1:]}")
        found = re.search(r"(http://\S+) serves", address.read_text())
        if found:
            try:
                with urllib.request.urlopen(found[1] + "/ready", timeout=5) as answer:
                    if answer.status == 200:
                        return found[1]
            except urllib.error.URLError:
                pass
        time.sleep(0.1)
    raise Failed("the server was not ready in the row's time")


def gpu_tests(run, name, arguments=(), checker=()):
    """A program of tests/gpu, whose receipt is kept; with a checker, that one's verdict."""
    receipt = run.keep / f"receipt-{name}.tsv"
    command = [*checker, run.bin / name, "--cache", run.cache / "tests", *arguments]
    output = run.call(command, **({} if checker else {"PAGODA_RECEIPT": str(receipt)}))
    if checker and "ERROR SUMMARY: 0 errors" not in output and "0 hazards displayed" not in output:
        raise Failed("the checker found something, or said nothing: see the log")
    passed = re.search(r"\[  PASSED  \] (\d+) test", output)
    if not passed or int(passed[1]) == 0:
        raise Failed("no test ran")
    return None, [{"tests": int(passed[1])}]


def receipt(run):
    files = sorted(run.keep.glob("receipt-*.tsv"))
    if not files:
        raise Failed("there are no receipts: check-parity and check-models leave them")
    run.call([sys.executable, ROOT / "tools" / "gpu_receipt.py", ROOT / "tests" / "golden" / "gpu_receipt.tsv", *files])
    return None, [{}]


class Row:
    def __init__(self, limit, make, *arguments, wanted=None, **named):
        self.limit = limit
        self.make = lambda run: make(run, *arguments, **named)
        self.wanted = wanted or {}  # by batch or by number of streams: (field, at most or at least, value)


def at_most(value, field="ms_per_step"):
    return (field, "≤", value)


def at_least(value, field="tok_s"):
    return (field, "≥", value)


def checkers(tool):
    return ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9")


# What runs under a checker, which makes a program tens of times slower.
CHECKED = {"linear": ("gpu_parity", "--formats", "bf16,q4_k,packed4_g128", "--gtest_filter=*LinearOnGpu*"),
           "attention": ("gpu_parity", "--gtest_filter=*AttentionOnGpu*:*AttentionInOnGpu*"),
           "steps": ("gpu_models", "--gtest_filter=*CapturedAndEagerDecodes*")}

# Of issues 4 (bf16), 5 (formats; Llama-8B, head in bf16 but where GGUF files have another) and 6 (serving).
ROWS = {
    "decode-1b-bf16": Row(60, model, "Llama-3.2-1B", "bf16", decode(1), wanted={1: at_most(0.95)}),
    "decode-4b-bf16": Row(120, model, "Qwen3-4B", "bf16", decode(1, 8, 32, 64),
                          wanted={1: at_most(2.5), 8: at_least(2400), 32: at_least(6000), 64: at_least(8500)}),
    "decode-8b-bf16": Row(120, model, "Llama-3.1-8B", "bf16", decode(1, 64), wanted={1: at_most(4.2), 64: at_most(9.0)}),
    "prefill-4b-bf16": Row(60, model, "Qwen3-4B", "bf16", prefill, wanted={1: at_least(66000)}),
    "prefill-8b-bf16": Row(60, model, "Llama-3.1-8B", "bf16", prefill, wanted={1: at_least(42000)}),
    "decode-4b-deterministic": Row(60, model, "Qwen3-4B", "bf16", decode(1), more=("--deterministic",)),
    "attention-decode": Row(120, program, "h200_attention", "attention_cuda", "decode"),
    "attention-prefill": Row(120, program, "h200_attention_sm90", "attention_cuda", "prefill_sm90"),
    "step-gap-1b": Row(60, step_gap, "Llama-3.2-1B", "bf16", wanted={1: at_most(50, "gap_us")}),
    "step-gap-4b": Row(60, step_gap, "Qwen3-4B", "bf16", wanted={1: at_most(50, "gap_us")}),
    "start-4b": Row(90, start, "Qwen3-4B", wanted={None: at_most(4, "median_s")}),
    "serve-4b-256": Row(150, serve, "Qwen3-4B", "bf16", [(256, 1000, 1000)],
                        wanted={256: at_least(12000, "output_tok_s")}),
    "serve-4b-depths": Row(150, serve, "Qwen3-4B", "bf16",
                           [(streams, 2048 + depth, 128) for depth in (0, 8192, 32768) for streams in (1, 2, 5, 10)]),
    "engine-4b-256": Row(120, lambda run: program(run, "h200_serve", "engine_load", run.configs / "Qwen3-4B.json", "bf16",
                                                  run.device, run.requests, 1000, 1000, run.cache / "pagoda")),
}

# name: head, batch 1 at most, prefill at least
for _name, (_head, _decode, _prefill) in {
        "fp8_e4m3": ("bf16", 2.6, 62000), "affine4_g64": ("bf16", 2.1, 38000), "gptq4_g128": ("bf16", 2.1, 38000),
        "awq4_g128": ("bf16", 2.1, 38000), "mxfp4": ("bf16", 2.1, 38000), "nvfp4": ("bf16", 2.1, 38000),
        "q4_k_m": ("", 2.1, 36000), "q8_0": ("bf16", 2.7, 0), "q6_k": ("bf16", 2.4, 0),
        "affine8_g64": ("bf16", 2.7, 0)}.items():
    ROWS[f"decode-8b-{_name}"] = Row(60, model, "Llama-3.1-8B", _name, decode(1), head=_head, wanted={1: at_most(_decode)})
    if _prefill:
        ROWS[f"prefill-8b-{_name}"] = Row(60, model, "Llama-3.1-8B", _name, prefill, head=_head,
                                          wanted={1: at_least(_prefill)})
ROWS |= {
    # As GGUF files of these types have their heads.
    "decode-8b-q8_0-head": Row(60, model, "Llama-3.1-8B", "q8_0", decode(1)),
    "decode-8b-q6_k-head": Row(60, model, "Llama-3.1-8B", "q6_k", decode(1)),
    "decode64-8b-fp8_e4m3": Row(60, model, "Llama-3.1-8B", "fp8_e4m3", decode(64), head="bf16", kv="fp8_e4m3",
                                wanted={64: at_most(6.2)}),
    "decode64-8b-gptq4_g128": Row(60, model, "Llama-3.1-8B", "gptq4_g128", decode(64), head="bf16",
                                  wanted={64: at_most(7.5)}),
    "decode-8b-between": Row(90, model, "Llama-3.1-8B", "gptq4_g128", decode(4, 8, 16, 32), head="bf16"),
    "linear-bf16": Row(150, program, "h200_mma_bulk_rows_chain", "mma_bulk_rows_chain"),
    "linear-few": Row(150, program, "h200_mma_bulk_codes", "mma_bulk_codes_chain"),
    "linear-shapes": Row(120, program, "h200_mma_bulk_codes", "mma_bulk_codes_chain", "shapes"),
    "linear-many": Row(150, program, "h200_wgmma_codes", "wgmma_codes_check", "time"),
    "check-parity": Row(300, gpu_tests, "gpu_parity"),
    "check-models": Row(300, gpu_tests, "gpu_models"),
    "check-receipt": Row(20, receipt),
}
for _name, (_program, *_arguments) in CHECKED.items():
    ROWS[f"check-memory-{_name}"] = Row(400, gpu_tests, _program, _arguments, checkers("memcheck"))
    ROWS[f"check-races-{_name}"] = Row(500, gpu_tests, _program, _arguments, checkers("racecheck"))


def key_of(line):
    return line.get("streams", line.get("batch"))


def verdict(row, line):
    """What is wanted of this line, and whether it holds; None where nothing is."""
    wanted = row.wanted.get(key_of(line), None)
    if wanted is None or wanted[0] not in line:
        return None
    field, relation, value = wanted
    met = line[field] <= value if relation == "≤" else line[field] >= value
    return field, line[field], f"{relation} {value:g}", met


def kept_rows(run):
    done = set()
    for path in run.keep.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record.get("commit") == run.commit and "row" in record:
                done.add(record["row"])
    return done


def measure(run, name, row):
    run.keep.mkdir(parents=True, exist_ok=True)
    log_path = run.keep / f"{name}.log"
    run.deadline = time.monotonic() + row.limit
    with open(log_path, "w") as run.log:
        file, lines = row.make(run)
        if not lines:
            raise Failed("it printed no figure")
    log_path.unlink()
    date = datetime.date.today().isoformat()
    if file is not None:
        with open(run.keep / f"{file}.jsonl", "a") as out:
            for line in lines:
                out.write(json.dumps(line | {"row": name, "commit": run.commit, "date": date}, ensure_ascii=False) + "\n")
    return lines


def ahead(run):
    """Every kernel of the model rows, compiled here for an H200."""
    seen = set()
    for config in ("Llama-3.2-1B", "Qwen3-4B", "Llama-3.1-8B"):
        for name in ["bf16"] if config != "Llama-3.1-8B" else ["bf16", *[n.removeprefix("prefill-8b-") for n in ROWS
                                                                         if n.startswith("prefill-8b-")],
                                                               "q8_0", "q6_k", "affine8_g64"]:
            for running in (1, 64, 256):
                if (config, name, running) in seen or (running == 256 and config != "Qwen3-4B"):
                    continue
                seen.add((config, name, running))
                command = [run.bin / "pagoda", "warm", run.configs / f"{config}.json", "--caps", "h200", "--format", name,
                           "--max-running", running]
                if name not in ("bf16", "q4_k_m"):
                    command += ["--head-format", "bf16"]
                print(run.call(command).strip().splitlines()[-1], flush=True)
    for name in ("gpu_parity", "gpu_models"):
        print(run.call([run.bin / name, "--compile-only", "h200", "--cache", run.cache / "tests"]).strip(), flush=True)


def chosen_rows(patterns):
    for pattern in patterns:
        if not fnmatch.filter(ROWS, pattern):
            sys.exit(f"pagoda: no row is called {pattern}; --list shows them")
    wanted = patterns or ["decode*", "prefill*", "attention*", "step*", "start*", "serve*", "engine*", "linear*"]
    return [name for name in ROWS if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="none: all figures, no checks")
    parser.add_argument("--list", action="store_true", help="names, limits in seconds and what is wanted")
    parser.add_argument("--again", action="store_true", help="also rows that this commit has")
    parser.add_argument("--keep", default=ROOT / "bench" / "results")
    parser.add_argument("--cache", default=ROOT / "build" / "gpu_kernels", help="kernels; made if it is not there")
    parser.add_argument("--bin", default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--configs", default=ROOT / "configs")
    parser.add_argument("--tokenizer", default=ROOT / "models" / "tokenizers" / "files" / "qwen-3", help="of the server's rows")
    parser.add_argument("--commit", default="", help="where this is no git checkout")
    parser.add_argument("--device", default="cuda", help="anything else is for trying this program")
    parser.add_argument("--steps", type=int, default=128, help="decode steps a sample")
    parser.add_argument("--depth", type=int, default=DEPTH, help="tokens of a prompt, and before decoding")
    parser.add_argument("--requests", type=int, default=256, help="of engine-4b-256")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    if arguments.list:
        for name, row in ROWS.items():
            wanted = "; ".join(f"{field} {relation} {value:g}" + (f" at {batch}" if batch else "")
                               for batch, (field, relation, value) in row.wanted.items())
            print(f"{name:28} {row.limit:4} s  {wanted}")
        return 0
    run = Run(arguments)
    if arguments.rows == ["ahead"]:
        run.deadline = time.monotonic() + 4 * 3600
        with open(os.devnull, "w") as run.log:
            ahead(run)
        return 0
    names = chosen_rows(arguments.rows)
    done = set() if arguments.again else kept_rows(run)
    table, failures = [], 0
    for name in names:
        if name in done:
            table.append(f"{name:28} kept already")
            continue
        begin = time.monotonic()
        try:
            lines = measure(run, name, ROWS[name])
        except Failed as failure:
            failures += 1
            table.append(f"{name:28} FAILED: {failure}")
        else:
            found = [found for line in lines if (found := verdict(ROWS[name], line)) is not None]
            table.append(f"{name:28} {time.monotonic() - begin:5.1f} s  {len(lines)} lines  " + "; ".join(
                f"{field} {value:g} (wanted {wanted}{'' if met else ', MISSED'})" for field, value, wanted, met in found))
        print(table[-1], flush=True)
    print("\n" + "\n".join(table))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
