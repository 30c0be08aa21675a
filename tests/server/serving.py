"""A real server process, and the smallest clients that can see what it sends."""
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

PROGRAM = os.environ.get("PAGODA_PROGRAM", "build/release/bin/pagoda")
MODEL = os.environ.get("PAGODA_MODEL", "models/SmolLM2-135M-Instruct.Q4_1.gguf")
NAME = os.path.splitext(os.path.basename(MODEL))[0]


class Server:
    """`pagoda serve MODEL flags...`, ended with the object's `with`. `loaded=False`: does not wait for the model.
    `files`: the soft and the hard limit of its open files."""

    def __init__(self, *flags, model=MODEL, env=None, fixed_address=False, loaded=True, files=None):
        self.log_file = tempfile.TemporaryFile(mode="w+")
        address = [] if fixed_address else ["--port", "0"]
        self.process = subprocess.Popen(
            [PROGRAM, "serve", model, *address, "--threads", "1", *flags],
            preexec_fn=files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files)), stderr=self.log_file, stdout=subprocess.DEVNULL, env={**os.environ, **(env or {})})
        self.url = self.wait_for_line("serves" if loaded else "answers; the model is being loaded")
        parts = urllib.parse.urlsplit(self.url)
        self.host, self.port = parts.hostname, parts.port

    def wait_for_line(self, what):
        """The address in the line that says so."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            found = re.search(rf"^pagoda: ((?:https?://|unix:)\S+) {what}", self.log(), re.M)
            if found:
                return found.group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError("the server did not start: " + self.log())

    def log(self):
        self.log_file.flush()
        return os.pread(self.log_file.fileno(), 1 << 24, 0).decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                code = self.process.wait(10)
                if code != 0:  # 66: a sanitizer's
                    raise RuntimeError(f"the server ended with {code}: " + self.log()[-4000:])
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log_file.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log_file.close()

    def connect(self, timeout=60):
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=120):
        """status, headers, body of one request on a connection of its own."""
        client = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        client.request(method, path, body, headers)
        response = client.getresponse()
        data = response.read()
        client.close()
        return response.status, dict((k.lower(), v) for k, v in response.getheaders()), data

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body, **kw):
        status, headers, data = self.request("POST", path, body, **kw)
        return status, json.loads(data) if data else None

    def raw(self, data, timeout=20):
        """All that comes back for these bytes until the server closes."""
        with self.connect(timeout) as client:
            client.sendall(data)
            return read_all(client)

    def metric(self, name):
        text = self.get("/metrics")[2].decode()
        return sum(float(v) for v in re.findall(rf"^pagoda_{name}(?:{{[^}}]*}})? (\S+)$", text, re.M))

    def wait_for(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.02)
        return condition()


def read_all(client):
    out = b""
    try:
        while part := client.recv(65536):
            out += part
    except (ConnectionResetError, TimeoutError):
        pass
    return out


def events(data):
    """The payloads of a stream of server-sent events; comments are left out."""
    found = []
    for block in data.decode().split("\n\n"):
        if block.startswith("data: "):
            assert "\n" not in block, block
            found.append(block[6:])
        else:
            assert block == "" or block.startswith(":"), block
    return found


def chat(content="hi", **more):
    return {"model": NAME, "messages": [{"role": "user", "content": content}], "temperature": 0, **more}


def completion(prompt="The capital of France is", **more):
    return {"model": NAME, "prompt": prompt, "temperature": 0, **more}


def masked(text):
    """Without what differs from run to run: ids and times."""
    text = re.sub(r'"id":"(chatcmpl|cmpl)-[0-9a-f]+"', r'"id":"\1-ID"', text)
    return re.sub(r'"created":\d+', '"created":0', text)
