"""A server that speaks the protocol as the page uses it, and does what a test scripts: the page's tests need faults, delays
and reasoning that no small model makes on demand. Serves web/ as `pagoda serve` does.

Run by hand: python3 tests/page/scripted_server.py [PORT] [KEY]
"""

import http.server
import itertools
import json
import pathlib
import sys
import threading
import time

WEB = pathlib.Path(__file__).resolve().parents[2] / "web"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)

METRICS = """# HELP pagoda_num_requests_running Requests in the batch.
# TYPE pagoda_num_requests_running gauge
pagoda_num_requests_running {running}
pagoda_num_requests_waiting 3
pagoda_kv_cache_usage_perc 0.4375
pagoda_prompt_tokens_total {prompt}
pagoda_prompt_tokens_cached_total {cached}
pagoda_generation_tokens_total {generated}
pagoda_request_success_total{{finished_reason="stop"}} {finished}
pagoda_request_success_total{{finished_reason="length"}} 2
pagoda_num_preemptions_total 1
pagoda_time_to_first_token_seconds_bucket{{le="0.01"}} {early}
pagoda_time_to_first_token_seconds_bucket{{le="0.1"}} {finished}
pagoda_time_to_first_token_seconds_bucket{{le="+Inf"}} {finished}
pagoda_time_to_first_token_seconds_sum 1.5
pagoda_time_to_first_token_seconds_count {finished}
"""


class Script:
    """What the server does next. `answer(request)` yields pieces: a text, {"reasoning": text}, a number (seconds to wait),
    ("refuse", status, error, headers), ("error", message) within the stream, or ("drop",): the connection ends."""

    def __init__(self):
        self.key = None
        self.requests = []
        self.cancelled = 0
        self.running = 0
        self.finished = 5
        self.answer = lambda request: ["Hello", " there."]
        self.usage = {
            "prompt_tokens": 31,
            "completion_tokens": 17,
            "total_tokens": 48,
            "prompt_tokens_details": {"cached_tokens": 16},
        }
        self.finish = "stop"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script = None

    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json", headers=()):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, message, param=None, headers=()):
        self.reply(
            status,
            json.dumps({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}),
            headers=headers,
        )

    def allowed(self):
        if self.script.key is None or self.headers.get("Authorization") == f"Bearer {self.script.key}":
            return True
        self.refuse(401, "No API key, or one that is not known here.")
        return False

    def do_GET(self):
        path = self.path.partition("?")[0]
        file = WEB / ("index.html" if path == "/" else path[1:])
        if file.parent in (WEB, WEB / "assets") and file.suffix in TYPES and file.is_file():
            return self.reply(
                200,
                file.read_bytes(),
                f"{TYPES[file.suffix]}; charset=utf-8",
                [
                    ("Content-Security-Policy", POLICY),
                    ("X-Content-Type-Options", "nosniff"),
                    ("Cache-Control", "no-cache"),
                ],
            )
        if not self.allowed():
            return None
        s = self.script
        if path == "/v1/models":
            return self.reply(
                200,
                json.dumps(
                    {"object": "list", "data": [{"id": "scripted-1b", "object": "model", "max_model_len": 4096}]}
                ),
            )
        if path == "/version":
            return self.reply(200, json.dumps({"version": "0.1.0"}))
        if path == "/metrics":
            seconds = time.monotonic()
            return self.reply(
                200,
                METRICS.format(
                    running=s.running,
                    prompt=int(seconds * 500),
                    cached=int(seconds * 250),
                    generated=int(seconds * 100),
                    finished=s.finished + int(seconds * 4),
                    early=int(seconds * 2),
                ),
                "text/plain; version=0.0.4",
            )
        return self.refuse(404, "There is nothing at this path.")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.allowed():
            return None
        request = json.loads(body)
        self.script.requests.append(request)
        pieces = iter(self.script.answer(request))
        first = next(pieces)
        if isinstance(first, tuple) and first[0] == "refuse":
            return self.refuse(first[1], *first[2:])
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.script.running += 1
        try:
            self.stream(first, pieces)
        except (BrokenPipeError, ConnectionResetError):
            self.script.cancelled += 1
        finally:
            self.script.running -= 1
        return None

    def event(self, choices, **more):
        chunk = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "scripted-1b",
            "choices": choices,
            **more,
        }
        self.wfile.write(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n")
        self.wfile.flush()

    def delta(self, delta, finish=None):
        self.event([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}])

    def stream(self, first, pieces):
        self.delta({"role": "assistant", "content": ""})
        for piece in itertools.chain([first], pieces):
            if isinstance(piece, (int, float)):
                self.wfile.write(b": keep-alive\n\n")
                self.wfile.flush()
                time.sleep(piece)
            elif isinstance(piece, dict):
                self.delta({"reasoning_content": piece["reasoning"]})
            elif piece == ("drop",):
                return
            elif isinstance(piece, tuple):
                self.wfile.write(
                    b"data: "
                    + json.dumps(
                        {"error": {"message": piece[1], "type": "server_error", "param": None, "code": None}}
                    ).encode()
                    + b"\n\n"
                )
                return
            else:
                self.delta({"content": piece})
        self.delta({}, self.script.finish)
        self.event([], usage=self.script.usage)
        self.wfile.write(b"data: [DONE]\n\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a browser may leave at any time
            super().handle_error(request, client_address)


def start(port=0):
    """Starts a server on a thread; returns it, with its address as `.address` and what it does as `.script`."""
    script = Script()
    server = Server(("127.0.0.1", port), type("Scripted", (Handler,), {"script": script}))
    server.script = script
    server.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    running = start(int(sys.argv[1]) if len(sys.argv) > 1 else 8089)
    running.script.key = sys.argv[2] if len(sys.argv) > 2 else None
    running.script.answer = lambda request: [0.3] + [
        part for word in f"You said: *{request['messages'][-1]['content']}*".split(" ") for part in (word + " ", 0.05)
    ]
    print(running.address)
    threading.Event().wait()
