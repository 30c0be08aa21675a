#!/usr/bin/env python3
"""Figures of the server on this machine, one JSON object a line: streams held at once by a tiny model whose weights are
made up, and wrk on routes that touch no model, beside nginx's static files of the same bytes where nginx is installed.

bench/serve_cpu.py [--streams 1000] [--seconds 10] [--note TEXT] >> bench/results/cpu_serve.jsonl

Client and server share the machine, and the first field to look at is its load when the run began.
"""
import argparse
import asyncio
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "server")]
import serve_load
from made_up_test import write_model
from serving import Server

PROMPT, TOKENS = 16, 64
WRK = ["wrk", "-t1", "-c64", "--latency"]

NGINX = """daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{ access_log off; default_type application/json; client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
"""


def machine():
    names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {"device": names[0], "cpus": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 2),
            "commit": commit, "date": str(datetime.date.today())}


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return round(float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit], 3)


def wrk(url, seconds):
    text = subprocess.run([*WRK, f"-d{seconds}s", url], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(text)
    return {"requests_s": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
            "p50_ms": milliseconds(re.search(r"50%\s+(\S+)", text)[1]),
            "p99_ms": milliseconds(re.search(r"99%\s+(\S+)", text)[1])}


@contextlib.contextmanager
def nginx(files):
    """Its address: one worker, no log, these files."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        os.chmod(folder, 0o755)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        for name, data in files.items():
            pathlib.Path(folder, name.strip("/").replace("/", "_")).write_bytes(data)
        pathlib.Path(folder, "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
        process = subprocess.Popen(["nginx", "-c", folder + "/nginx.conf"], stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--note", default="")
    arguments = parser.parse_args()
    serve_load.allow_many_sockets()
    more = {"note": arguments.note} if arguments.note else {}

    def tell(line):
        print(json.dumps({**line, **before, **more}), flush=True)

    with tempfile.TemporaryDirectory() as folder, Server(
            "--dummy-weights", "--tokenizer", folder, "--alias", "made-up", "--no-request-log", "--ctx", "128",
            "--max-running", str(min(arguments.streams, 1024)), "--max-queued", str(arguments.streams),
            "--kv-tokens", str(arguments.streams * 96), model=write_model(folder)) as server:
        files = {path: server.get(path)[2] for path in ("/health", "/v1/models")}
        before = machine()
        load = serve_load.parser_of("").parse_args(
            [server.url, "--streams", str(arguments.streams), "--prompt", str(PROMPT), "--tokens", str(TOKENS),
             "--pid", str(server.process.pid), "--vocabulary", "256"])
        line = asyncio.run(serve_load.measure(load))
        if line["ok"] != arguments.streams:
            raise RuntimeError(f"only {line['ok']} of {arguments.streams} streams were answered whole")
        kv_bytes_per_token = server.metric("kv_cache_bytes") / (server.metric("kv_blocks") * 16)
        tell({**line, "test": "serve_streams", "of_these_kv": int(kv_bytes_per_token * (PROMPT + TOKENS))})
        for path in files:
            before = machine()
            tell({"test": "wrk", "server": "pagoda", "path": path, "body_bytes": len(files[path]), "connections": 64,
                  **wrk(server.url + path, arguments.seconds)})
    if shutil.which("nginx"):
        with nginx(files) as address:
            for path in files:
                before = machine()
                name = "/" + path.strip("/").replace("/", "_")
                tell({"test": "wrk", "server": "nginx, static file", "path": path, "body_bytes": len(files[path]),
                      "connections": 64, **wrk(address + name, arguments.seconds)})


if __name__ == "__main__":
    main()
