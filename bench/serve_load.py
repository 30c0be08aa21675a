#!/usr/bin/env python3
"""Many streams at once against a running server; prints one JSON object.

bench/serve_load.py URL --streams 256 --prompt 1000 --tokens 1000 [--rounds 1] [--pid PID]

Each stream is a connection of its own: a prompt of random token ids, an answer of exactly --tokens tokens. With --pid of the server
(on this machine), its memory and CPU time are reported too.
"""
import argparse
import asyncio
import json
import os
import random
import resource
import time
import urllib.parse
import urllib.request


def rss_bytes(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else None


async def stream(host, port, body, arrivals, key):
    begin = time.monotonic()
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"{'Authorization: Bearer ' + key + chr(13) + chr(10) if key else ''}Content-Length: {len(body)}\r\n\r\n")
    writer.write(head.encode() + body)
    times, done, status = [], False, (await reader.readline()).split(b" ")[1]
    while line := await reader.readline():
        if line.startswith(b"data: [DONE]"):
            done = True
        elif line.startswith(b"data: "):
            times.append(time.monotonic())
    writer.close()
    arrivals.append({"ok": done and status == b"200", "first": times[0] - begin if times else None,
                     "gaps": [b - a for a, b in zip(times, times[1:-1])]})


async def measure(arguments):
    parts = urllib.parse.urlsplit(arguments.url)
    request = urllib.request.Request(arguments.url + "/v1/models")
    if arguments.api_key:
        request.add_header("Authorization", "Bearer " + arguments.api_key)
    model = json.load(urllib.request.urlopen(request))["data"][0]["id"]
    rng = random.Random(1)
    bodies = [json.dumps({"model": model, "prompt": [rng.randrange(arguments.vocabulary // 40, arguments.vocabulary) for _ in range(arguments.prompt)],
                          "max_tokens": arguments.tokens, "ignore_eos": True, "temperature": 0, "stream": True}).encode()
              for _ in range(arguments.streams * arguments.rounds)]
    before = (rss_bytes(arguments.pid), cpu_seconds(arguments.pid)) if arguments.pid else None
    arrivals, peak = [], [0]

    async def worker(own):
        for body in own:
            await stream(parts.hostname, parts.port, body, arrivals, arguments.api_key)

    async def watch():
        while True:
            peak[0] = max(peak[0], rss_bytes(arguments.pid))
            await asyncio.sleep(0.2)

    watcher = asyncio.create_task(watch()) if arguments.pid else None
    begin = time.monotonic()
    await asyncio.gather(*(worker(bodies[i::arguments.streams]) for i in range(arguments.streams)))
    seconds = time.monotonic() - begin
    if watcher:
        watcher.cancel()
    ok = sum(a["ok"] for a in arrivals)
    firsts = [a["first"] for a in arrivals if a["first"] is not None]
    gaps = [gap for a in arrivals for gap in a["gaps"]]
    out = {"test": "serve", "model": model, "streams": arguments.streams, "requests": len(arrivals), "ok": ok,
           "prompt": arguments.prompt, "tokens": arguments.tokens, "seconds": round(seconds, 3),
           "output_tok_s": round(ok * arguments.tokens / seconds, 1)}
    for name, values in (("first_event_ms", firsts), ("gap_ms", gaps)):
        for q in (50, 99):
            value = quantile(values, q / 100)
            out[f"{name}_p{q}"] = None if value is None else round(value * 1000, 2)
    if before:
        out["bytes_per_stream"] = (peak[0] - before[0]) // arguments.streams
        out["cpu_us_per_token"] = round((cpu_seconds(arguments.pid) - before[1]) * 1e6 / max(1, ok * arguments.tokens), 1)
    return out


def parser_of(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=40000, help="ids of prompts are below it")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--pid", type=int)
    return parser


def allow_many_sockets():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main():
    allow_many_sockets()
    print(json.dumps(asyncio.run(measure(parser_of(__doc__).parse_args()))))


if __name__ == "__main__":
    main()
