"""The edge of the server: limits, keys, CORS, TLS, Unix sockets, drain, restart."""
import json
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from serving import MODEL, NAME, PROGRAM, Server, chat, completion, events, read_all

GET = b"GET /version HTTP/1.1\r\nHost: x\r\n"


def statuses(data):
    """Of responses one after another whose bodies hold no status line."""
    return [int(part.split(b" ", 1)[0]) for part in data.split(b"HTTP/1.1 ")[1:]]


def upload(client, size=1_000_000):
    """What comes back to a client that looks for no answer before it has sent everything, and takes seconds for that."""
    client.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
                   b"Content-Type: application/json\r\n\r\n" % size)
    for _ in range(8):
        client.sendall(b" " * (size // 8))
        time.sleep(0.4)
    return read_all(client)


def serve_with(file, text, model, *flags):
    """What `serve` says, and how it ends, with this text in its configuration file."""
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
    return subprocess.run([PROGRAM, "serve", model, "--config", file.name, *flags], capture_output=True, text=True,
                          timeout=30)


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--ctx", "1024", "--max-body", "100000", "--header-timeout", "1", "--body-timeout", "1",
                            "--idle-timeout", "3")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def one(self, data, status):
        got = self.server.raw(data)
        self.assertEqual(statuses(got), [status], got[:300])
        body = got.split(b"\r\n\r\n", 1)[1]
        if status >= 400:
            self.assertEqual(set(json.loads(body)["error"]), {"message", "type", "param", "code"})
        return got

    def test_limits_of_the_head(self):
        self.one(b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414)
        self.one(b"GET /" + b"a" * 90000, 414)  # and no line's end
        self.one(GET + b"X: " + b"a" * 9000 + b"\r\n\r\n", 431)
        self.one(GET + b"".join(b"X%d: 1\r\n" % i for i in range(120)) + b"\r\n", 431)
        self.one(GET + b"".join(b"X%d: " % i + b"a" * 4000 + b"\r\n" for i in range(12)) + b"\r\n", 431)
        ok = GET + b"".join(b"X%d: 1\r\n" % i for i in range(98)) + b"Connection: close\r\n"
        self.assertEqual(statuses(self.server.raw(ok[:-19] + b"Connection: close\r\n\r\n")), [200])

    def test_malformed(self):
        for data in (b"\r\n\r\nnonsense\r\n\r\n", b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
                     b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET x HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
                     b"GET /version HTTP/1.1\nHost: x\n\n", b"GET /version HTTP/1.1\r\nHost: x\n\r\n"):
            self.one(data, 400)
        self.one(b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505)

    def test_framing_that_could_be_read_in_two_ways(self):
        post = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        for headers in (b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                        b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                        b"Content-Length: 3\r\nContent-Length: 4\r\n", b"Content-Length: -3\r\n",
                        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n",
                        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
                        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                        b"Content-Length: 3x\r\n", b"Content-Length: 99999999999999999999999\r\n"):
            self.one(post + headers + b"\r\nabc", 400)
        old = post.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.one(old + b"2\r\n{}\r\n0\r\n\r\n", 400)
        self.one(post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", 400)

    def test_bodies(self):
        post = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self.one(post + b"Content-Length: 100001\r\n\r\n", 413)
        self.one(post + b"Transfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + b" " * 0x4000 + b"\r\n" +
                 (b"8000\r\n" + b" " * 0x8000 + b"\r\n") * 4 + b"0\r\n\r\n", 413)
        body = b'{"prompt": "hello"}'
        pieces = b"".join(b"1\r\n%c\r\n" % c for c in body) + b"0\r\nTrailer: x\r\n\r\n"
        self.one(post + b"Transfer-Encoding: chunked\r\n\r\n" + pieces, 200)
        self.one(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\n{}", 415)
        self.one(post + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415)
        for codings, status in ((b"identity", 200), (b"Identity\r\nContent-Encoding: identity", 200),
                                (b"identity\r\nContent-Encoding: gzip", 415), (b"identity, gzip", 415)):
            self.one(post + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (codings, len(body)) + body, status)
        got = self.server.raw(post + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertTrue(got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), got)
        self.one(post + b"Expect: tea\r\nContent-Length: 2\r\n\r\n{}", 417)
        old = post.replace(b"1.1", b"1.0") + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
        self.one(old + body, 200)

    def test_a_refused_body_may_be_sent_to_its_end(self):
        with self.server.connect() as client:
            answer = upload(client)
        self.assertEqual(statuses(answer), [413])
        self.assertIn("larger than the 100000 bytes that are taken", json.loads(answer.split(b"\r\n\r\n", 1)[1])
                      ["error"]["message"])

    def test_pipelining_keep_alive_and_old_clients(self):
        last = GET + b"Connection: close\r\n\r\n"
        self.assertEqual(statuses(self.server.raw((GET + b"\r\n") * 5 + last)), [200] * 6)
        self.assertEqual(statuses(self.server.raw(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + last)), [404, 200])
        self.assertEqual(statuses(self.server.raw(
            b"GET http://proxied.example/version?x=1 HTTP/1.1\r\nHost: proxied.example\r\n\r\n"
            b"GET HTTPS://proxied.example HTTP/1.1\r\nHost: proxied.example\r\n\r\n" + last)), [200, 200, 200])
        got = self.server.raw(b"GET /version HTTP/1.0\r\n\r\n")
        self.assertIn(b"connection: close", got)
        head = self.server.raw(b"HEAD /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertTrue(head.endswith(b"\r\n\r\n"), head)
        body = json.dumps(completion(max_tokens=3, stream=True)).encode()
        old = self.server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
                              b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.assertNotIn(b"chunked", old)
        self.assertEqual(events(old.split(b"\r\n\r\n", 1)[1])[-1], "[DONE]")

    def test_slow_clients_are_told_so(self):
        begin = time.monotonic()
        with self.server.connect() as client:
            for byte in b"GET /ver":
                client.sendall(bytes([byte]))
                time.sleep(0.2)
                if time.monotonic() - begin > 1.3:
                    break
            self.assertEqual(statuses(read_all(client)), [408])
        self.one(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{", 408)
        with self.server.connect() as client:  # that says nothing is closed and told nothing
            self.assertEqual(read_all(client), b"")

    def test_methods_and_paths(self):
        for method, path, status in (("GET", "/v1/chat/completions", 405), ("POST", "/health", 405),
                                     ("DELETE", "/v1/models", 405), ("OPTIONS", "/v1/completions", 405),
                                     ("GET", "/v1", 404), ("GET", "/%2e%2e/etc/passwd", 404)):
            got, headers, data = self.server.request(method, path)
            self.assertEqual(got, status, path)
            self.assertIn("x-request-id", headers)
            if status == 405:
                self.assertIn("allow", headers)
            json.loads(data)

    def test_a_page_of_another_site_is_refused(self):
        """Also where its name leads to this machine (DNS rebinding), so that the browser takes it for one site."""
        for origin, status in (("http://evil.example:8080", 403), ("null", 403), ("http://127.evil.example", 403),
                               ("http://127.0.0.1.evil.example", 403), ("http://localhost:3000", 200),
                               ("http://127.0.0.1:3000", 200), ("http://[::1]:3000", 200), ("http://[::2]", 403)):
            headers = {"Origin": origin, "Host": origin.split("//")[-1], "Content-Type": "application/json"}
            got, _, data = self.server.request("POST", "/tokenize", '{"prompt": "x"}', headers)
            self.assertEqual(got, status, (origin, data))
        with Server("--ctx", "256", "--cors-origin", "https://chat.example", "--api-key", "k") as server:
            for origin in ("https://chat.example", "https://evil.example"):  # who has the key may ask
                headers = {"Origin": origin, "Authorization": "Bearer k"}
                self.assertEqual(server.get("/v1/models", headers=headers)[0], 200)

    def test_a_loopback_address_is_one_however_it_is_written(self):
        for host, status, warns in (("127.1", 403, False), ("LOCALHOST", 403, False), ("0.0.0.0", 200, True)):
            with Server("--host", host, loaded=False) as server:
                server.host = "127.0.0.1"
                got = server.get("/version", headers={"Origin": "http://evil.example"})[0]
                self.assertEqual(got, status, host)
                own = server.get("/version", headers={"Origin": f"http://{host.lower()}:{server.port}"})[0]
                self.assertEqual(own, 200, host)  # the page's own
                self.assertEqual("everybody who reaches this address may ask" in server.log(), warns, host)

    def test_cors_is_off(self):
        headers = self.server.request("GET", "/version", headers={"Origin": "http://evil.example"})[1]
        self.assertNotIn("access-control-allow-origin", headers)

    def test_metrics_health_page(self):
        self.server.post("/v1/completions", completion(max_tokens=3))
        text = self.server.get("/metrics")[2].decode()
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total",
                     "generation_tokens_total", "time_to_first_token_seconds_bucket", "inter_token_latency_seconds_sum",
                     "e2e_request_latency_seconds_count", "num_preemptions_total", "requests_refused_total"):
            self.assertIn("pagoda_" + name, text)
        self.check_exposition(text)
        self.assertGreater(self.server.metric("generation_tokens_total"), 0)
        for path in ("/health", "/ready"):
            self.assertEqual(self.server.get(path)[0], 200)
        status, headers, page = self.server.get("/")
        self.assertEqual(status, 200)
        self.assertIn(b"<title>", page)
        self.assertNotIn("unsafe", headers["content-security-policy"])
        self.assertEqual(self.server.get("/", headers={"If-None-Match": headers["etag"]})[0], 304)
        log = [json.loads(line) for line in self.server.log().splitlines() if line.startswith("{")]
        self.assertTrue(log)
        self.assertNotIn("capital of France", self.server.log())

    def check_exposition(self, text):
        """The rules of Prometheus' text format, and those of its linter that are of names."""
        kinds, seen, family, buckets = {}, set(), None, {}
        for line in text.splitlines():
            if line.startswith("# "):
                _, word, name, rest = line.split(" ", 3)
                if word == "HELP":
                    self.assertNotIn(name, kinds, "a family stands in two places")
                    self.assertTrue(rest)
                    family = name
                    continue
                self.assertEqual((word, name), ("TYPE", family))
                self.assertIn(rest, ("counter", "gauge", "histogram"))
                self.assertEqual(rest == "counter", name.endswith("_total"), name)
                self.assertRegex(name, "^pagoda_[a-z0-9_]+$")
                kinds[name] = rest
                continue
            match = re.fullmatch(r'([a-z0-9_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\} (\S+)', line)
            self.assertTrue(match, line)
            name, labels, value = match.groups()
            self.assertNotIn((name, labels), seen)
            seen.add((name, labels))
            value = float(value)
            if kinds[family] != "histogram":
                self.assertEqual(name, family)
                self.assertTrue(value >= 0, line)
                continue
            self.assertIn(name, (family + "_bucket", family + "_sum", family + "_count"))
            if name.endswith("_bucket"):
                buckets.setdefault(family, []).append((float(re.search('le="([^"]+)"', labels)[1]), value))
            elif name.endswith("_count"):
                self.assertEqual(buckets[family][-1], (float("inf"), value), family)
        for family, found in buckets.items():
            self.assertEqual(found, sorted(set(found)), family)  # bounds and counts ascend
            self.assertEqual([count for _, count in found], sorted(count for _, count in found), family)
        self.assertEqual(sum(kind == "histogram" for kind in kinds.values()), len(buckets))
        self.assertGreater(len(buckets), 5)

    def test_who_leaves_before_an_answer_is_no_response(self):
        before = self.server.metric("http_requests_unanswered_total")
        body = json.dumps(completion(max_tokens=900, ignore_eos=True)).encode()
        with self.server.connect() as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self.server.wait_for(lambda: self.server.metric("num_requests_running") > 0)
        self.assertTrue(self.server.wait_for(
            lambda: self.server.metric("http_requests_unanswered_total") == before + 1))
        self.assertNotIn('status="0"', self.server.get("/metrics")[2].decode())

    def test_who_sends_much_more_and_leaves_is_noticed(self):
        """Beyond some input behind a request the server reads no further, and sees no end there."""
        body = json.dumps(completion(max_tokens=900, ignore_eos=True)).encode()
        post = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body) + body)
        for resets in (False, True):
            before = self.server.metric("requests_aborted_total"), self.server.metric("generation_tokens_total")
            with self.server.connect() as client:
                client.sendall(post + (GET + b"\r\n") * 2500)
                self.server.wait_for(lambda: self.server.metric("num_requests_running") > 0)
                if resets:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.assertTrue(self.server.wait_for(lambda: self.server.metric("num_requests_running") == 0))
            self.assertTrue(self.server.wait_for(lambda: self.server.metric("requests_aborted_total") == before[0] + 1))
            self.assertLess(self.server.metric("generation_tokens_total"), before[1] + 800)
        answers = self.server.raw(post.replace(b"900", b"100") + (GET + b"\r\n") * 2500 + GET + b"Connection: close\r\n\r\n")
        self.assertEqual(statuses(answers), [200] * 2502)  # one who stays has them all

    def test_small_requests_do_not_wait_for_large_ones(self):
        """A body of many megabytes takes seconds to read and tokenize."""
        with Server("--ctx", "512") as server:
            large = json.dumps({"prompt": "all the words of a book " * 900_000}).encode()
            clients = [server.connect() for _ in range(3)]
            for client in clients:
                client.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n" % len(large) + large)
            begin = time.monotonic()
            for _ in range(5):
                self.assertEqual(server.post("/tokenize", {"prompt": "hello"})[0], 200)
            small = time.monotonic() - begin
            for client in clients:
                client.settimeout(0.01)
                with self.assertRaises(TimeoutError):  # which are still being read
                    client.recv(1)
                client.close()
            self.assertLess(small, 5)
            server.kill()

    def test_nobody_reads_stderr(self):
        """The log never holds the server up; what is lost is counted, and told where it is missing."""
        count = 12_000
        process = subprocess.Popen([PROGRAM, "serve", MODEL, "--port", "0", "--threads", "1", "--ctx", "256"],
                                   stderr=subprocess.PIPE)
        try:
            lines = []
            while " serves " not in (lines[-1] if lines else ""):
                lines.append(process.stderr.readline().decode())
            port = int(re.search(r":(\d+) serves", lines[-1])[1])
            ask = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
            with socket.create_connection(("127.0.0.1", port), 20) as client:
                for _ in range(count // 100):
                    client.sendall(ask * 100)
                    got = b""
                    while got.count(b"HTTP/1.1 200 OK") < 100 or not got.endswith(b"}"):
                        got += client.recv(1 << 16)
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                lost = int(re.search(rb"pagoda_log_lines_lost_total\S+ (\d+)", read_all(client))[1])
            self.assertGreater(lost, 0)
            os.set_blocking(process.stderr.fileno(), False)
            log, end = b"", time.monotonic() + 20
            while b"are missing here" not in log and time.monotonic() < end:
                log += process.stderr.read() or b""
                time.sleep(0.01)
            os.set_blocking(process.stderr.fileno(), True)
            process.send_signal(signal.SIGTERM)
            log += process.stderr.read()
            self.assertEqual(process.wait(10), 0)
            told = [line for line in log.decode().splitlines() if not line.startswith("{")]
            self.assertRegex(told[0], f"^pagoda: warning: ({lost}|{lost + 1}) lines are missing here")
            requests = [json.loads(line) for line in log.decode().splitlines() if line.startswith("{")]
            self.assertEqual(len(requests) + int(re.search(r"\d+", told[0])[0]), count + 1)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def test_a_stream_that_waits_is_kept_alive(self):
        with Server("--ctx", "1024", "--max-running", "1", "--keep-alive-interval", "0.1") as busy:
            body = json.dumps(completion(max_tokens=4, stream=True)).encode()
            head = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n")
            first = busy.connect()
            long = json.dumps(completion(max_tokens=1000, ignore_eos=True, stream=True)).encode()
            first.sendall(head % len(long) + long)
            first.recv(10)
            with busy.connect() as second:
                second.sendall(head % len(body) + body)
                time.sleep(0.5)
                first.close()  # and the second's turn comes
                data = read_all(second)
            self.assertIn(b": keep-alive\n\n", data)
            self.assertTrue(data.startswith(b"HTTP/1.1 200 OK\r\n"))
            self.assertIn(b"data: [DONE]\n\n", data)

    def test_a_connection_limit_and_overload_are_told(self):
        with Server("--ctx", "256", "--max-connections", "4", "--max-running", "1", "--max-queued", "1") as small:
            held = [small.connect() for _ in range(4)]
            time.sleep(0.1)
            with small.connect() as client:
                client.sendall(GET + b"\r\n")
                self.assertEqual(statuses(read_all(client)), [503])
            with small.connect() as client:  # that sends before it looks
                client.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n")
                client.sendall(b" " * 30_000_000)
                self.assertEqual(statuses(read_all(client)), [503])
            for client in held:
                client.close()
            time.sleep(0.1)
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(
                small.request("POST", "/v1/completions", completion(max_tokens=100, ignore_eos=True))))
                for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            got = sorted(status for status, _, _ in answers)
            self.assertEqual(len(got), 4)
            self.assertIn(200, got)
            self.assertIn(429, got)
            for status, headers, _ in answers:
                if status == 429:
                    self.assertIn("retry-after", headers)


    def test_a_limit_of_open_files_never_means_silence(self):
        """The soft limit is raised; a hard one bounds the connections, and who is too many is told."""
        for hard, most in ((2000, 300), (128, 64)):
            with Server("--max-connections", "300", loaded=False, files=(100, hard)) as server:
                told = f"warning: {most} connections are served at once, not 300: the process may have {hard} files"
                self.assertEqual(told in server.log(), most < 300, server.log())
                held = [server.connect(timeout=20) for _ in range(most)]
                for client in held:
                    client.sendall(GET + b"\r\n")
                self.assertEqual({client.recv(15) for client in held}, {b"HTTP/1.1 200 OK"})
                for _ in range(30):
                    with server.connect(timeout=20) as client:
                        self.assertEqual(statuses(read_all(client)), [503])
                for client in held:
                    client.close()
                self.assertTrue(server.wait_for(lambda: server.get("/version")[0] == 200))

    def test_all_bodies_together_are_bounded(self):
        post = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

        def whole(size):
            return post % size + b'{"prompt": "' + b"a" * (size - 14) + b'"}'

        with Server("--ctx", "2048", "--max-bodies", "1000") as small:
            for size, status in ((1001, 503), (1000, 200), (1001, 503)):  # also one that comes in one piece
                self.assertEqual(statuses(small.raw(whole(size).replace(b"Host", b"Connection: close\r\nHost", 1))), [status])
            with small.connect() as client:
                for _ in range(5):  # what was answered counts no more
                    client.sendall(whole(600))
                    self.assertIn(b" 200 OK", client.recv(65536).split(b"\r\n")[0])
            with small.connect() as half:
                half.sendall(whole(600)[:-1])
                self.assertTrue(small.wait_for(lambda: statuses(small.raw(whole(600) )) == [503]))
                self.assertEqual(small.get("/health")[0], 200)  # has no body
            self.assertTrue(small.wait_for(lambda: small.post("/tokenize", {"prompt": "a" * 600})[0] == 200))


class Keys(unittest.TestCase):
    def test_everything_but_the_open_routes_needs_a_key(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("\ufefffrom-windows\r\n# keys\nfrom-file\n\n")
            file.flush()
            with Server("--ctx", "256", "--api-key", "first", "--api-key", "second", "--api-key-file", file.name,
                        "--cors-origin", "https://chat.example", env={"PAGODA_API_KEY": "from-env"}) as server:
                api = json.loads(server.get("/openapi.json", headers={"Authorization": "Bearer first"})[2])
                paths = [p.replace("{model}", NAME) for p in api["paths"]] + ["/v1/nothing", "/etc/passwd", "/admin"]
                self.assertGreater(len(paths), 10)
                for path in paths:
                    for method in ("GET", "POST", "DELETE", "OPTIONS", "BREW"):
                        status = server.request(method, path)[0]
                        if path in ("/health", "/ready"):
                            self.assertEqual(status, 200 if method == "GET" else 405)
                        else:
                            self.assertEqual(status, 401, (method, path))
                self.assertEqual(server.get("/")[0], 200)
                for key in ("first", "second", "from-file", "from-windows", "from-env"):
                    self.assertEqual(server.get("/v1/models", headers={"Authorization": "Bearer " + key})[0], 200)
                self.assertEqual(server.get("/v1/models", headers={"X-Api-Key": "second"})[0], 200)
                for wrong in ("Bearer firs", "Bearer first2", "Bearer ", "first", "Basic first", "Bearer # keys"):
                    self.assertEqual(server.get("/v1/models", headers={"Authorization": wrong})[0], 401, wrong)
                self.preflight(server)
                # Without a key no body is read.
                huge = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n"
                self.assertEqual(statuses(server.raw(huge)), [401])
                self.assertNotIn("second", server.log())

    def preflight(self, server):
        """CASES I7."""
        asks = {"Origin": "https://chat.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"}  # as OpenAI's client
        status, headers, data = server.request("OPTIONS", "/v1/chat/completions", headers=asks)
        self.assertEqual((status, data), (204, b""))
        self.assertEqual(headers["access-control-allow-origin"], "https://chat.example")
        self.assertEqual(headers["access-control-allow-headers"], asks["Access-Control-Request-Headers"])
        self.assertEqual(server.request("OPTIONS", "/v1/chat/completions",
                                        headers={**asks, "Origin": "https://evil.example"})[0], 401)
        for key, expected in (("first", 200), ("wrong", 401)):
            status, headers, _ = server.request(
                "POST", "/v1/chat/completions", chat(max_tokens=1, stream=True),
                headers={"Origin": "https://chat.example", "Authorization": "Bearer " + key})
            self.assertEqual(status, expected)
            self.assertEqual(headers["access-control-allow-origin"], "https://chat.example")


    def test_keys_that_no_header_can_carry(self):
        for flags, env in ((["--api-key", "a\n"], {}), (["--api-key", " a"], {}), ([], {"PAGODA_API_KEY": "a\n"}),
                           ([], {"PAGODA_API_KEY": " "})):
            done = subprocess.run([PROGRAM, "serve", "x.gguf", "--port", "0", *flags], env={**os.environ, **env},
                                  capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("is no key", done.stderr)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("good\nb\tad\n")
            file.flush()
            done = subprocess.run([PROGRAM, "serve", "x.gguf", "--port", "0", "--api-key-file", file.name],
                                  capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{file.name}, line 2 is no key", done.stderr)


class Transports(unittest.TestCase):
    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                            "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                            "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
            with Server("--ctx", "256", "--max-body", "100000", "--tls-cert", cert, "--tls-key", key) as server:
                context = ssl.create_default_context(cafile=cert)
                body = json.dumps(completion(max_tokens=4, stream=True)).encode()
                with context.wrap_socket(server.connect(), server_hostname="127.0.0.1") as client:
                    self.assertIn(client.version(), ("TLSv1.2", "TLSv1.3"))
                    client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                   b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                    self.assertIn(b"data: [DONE]", read_all(client))
                with server.connect() as plain:  # is told what would do
                    plain.sendall(GET + b"\r\n")
                    answer = read_all(plain)
                    self.assertEqual(statuses(answer), [400])
                    self.assertEqual(json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["code"], "tls_wanted")
                self.assertEqual(statuses(server.raw(
                    b"POST /v1/completions HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n" + b" " * 3_000_000)), [400])
                with server.connect() as nonsense:
                    nonsense.sendall(b"\x16nonsense\r\n\r\n")
                    self.assertNotIn(b"HTTP", read_all(nonsense))
                with context.wrap_socket(server.connect(), server_hostname="127.0.0.1",
                                         suppress_ragged_eofs=False) as client:
                    client.sendall(GET + b"Connection: close\r\n\r\n")
                    self.assertEqual(statuses(read_all(client)), [200])  # and TLS's own end
                with context.wrap_socket(server.connect(), server_hostname="127.0.0.1",
                                         suppress_ragged_eofs=False) as client:
                    self.assertEqual(statuses(upload(client)), [413])

    def test_a_key_with_a_pass_phrase_is_not_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                            "-passout", "pass:secret", "-keyout", key, "-out", cert, "-subj", "/CN=localhost"],
                           check=True, capture_output=True)
            done = subprocess.run([PROGRAM, "serve", "x.gguf", "--port", "0", "--tls-cert", cert, "--tls-key", key],
                                  capture_output=True, text=True, timeout=20, start_new_session=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"{key} is encrypted with a pass phrase", done.stderr)

    def test_a_path_that_is_no_socket_of_ours_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "precious")
            with open(path, "w") as file:
                file.write("weights")
            done = subprocess.run([PROGRAM, "serve", "no.gguf", "--unix-socket", path], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("in use", done.stderr)
            with open(path) as file:
                self.assertEqual(file.read(), "weights")

            # Another server has taken the path meanwhile: its socket outlives the first one.
            path = os.path.join(folder, "sock")
            first = Server("--ctx", "256", "--unix-socket", path, fixed_address=True)
            os.rename(path, path + ".old")
            with Server("--ctx", "256", "--unix-socket", path, fixed_address=True):
                first.__exit__()
                self.assertTrue(os.path.exists(path))

    def test_unix_socket_survives_kill(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            for _ in range(2):  # the second finds the first one's file
                server = Server("--ctx", "256", "--unix-socket", path, fixed_address=True)
                client = socket.socket(socket.AF_UNIX)
                client.connect(path)
                client.sendall(GET + b"Connection: close\r\n\r\n")
                self.assertEqual(statuses(read_all(client)), [200])
                client.close()
                server.process.kill()
                server.process.wait()
            self.assertTrue(os.path.exists(path))
            with Server("--ctx", "256", "--unix-socket", path, fixed_address=True):
                pass
            self.assertFalse(os.path.exists(path))

    def test_configuration_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('alias = "from-file"\nctx = 256\napi-key = ["k1", "k2"]\nno-page = true\nmax-body = 1000\n')
            file.flush()
            with Server("--config", file.name, "--alias", "from-line") as server:
                for key in ("k1", "k2"):
                    models = json.loads(server.get("/v1/models", headers={"Authorization": "Bearer " + key})[2])
                    self.assertEqual([m["id"] for m in models["data"]], ["from-line"])
                self.assertEqual(server.get("/v1/models")[0], 401)
                self.assertEqual(server.get("/", headers={"X-Api-Key": "k1"})[0], 404)
                status = server.request("POST", "/tokenize", {"prompt": "x" * 2000}, headers={"X-Api-Key": "k1"})[0]
                self.assertEqual(status, 413)
            for bad in ("alias = ", 'nonsense = 1\n', 'port = "x"\n', "port = 70000\n", "api-key = [[1]]\n",
                        "port = true\n", "config = \"x\"\n", "[table]\nport = 1\n", 'tls-cert = "x"\n'):
                done = serve_with(file, bad, "x.gguf")
                self.assertEqual(done.returncode, 2, (bad, done.stderr))
                self.assertTrue(done.stderr.startswith("pagoda: error: "), done.stderr)
            # Each key is checked, also one that the line overrides, and told with its line in the file.
            for text, flags, told in (
                    ("\nport = 70000\n", ["--port", "0"], "line 2: --port: must be a whole number from 0 to 65535"),
                    ("ctx = 0\n", ["--ctx=64"], "line 1: --ctx: must be a whole number from 1"),
                    ('no-page = "yes"\n', [], "line 1: no-page must be true or false"),
                    ("no-page = 1\n", [], "line 1: no-page must be true or false"),
                    ("# keys\napi-key = [true]\n", [], "line 2: api-key must be a text or a number"),
                    ("port = [1, 2]\n", [], "line 1: --port has one value, and several are given"),
                    ("prot = 1\n", [], r"line 1: serve has no flag --prot \(did you mean --port\?\)"),
                    ("version = true\n", [], "line 1: --version has no place in a file"),
                    ('port = 1\nunix-socket = "x"\n', [], "--port excludes --unix-socket.*--port stands in the"),
                    ("tune = true\n", ["--deterministic"], "--tune"),
                    ('tls-cert = "x"\n', [], "--tls-cert requires --tls-key.*--tls-cert stands in the"),
                    ('unix-socket = ""\n', ["--port", "0"], "line 1: unix-socket must not be empty"),
                    ("api-key = []\n", [], "line 1: api-key must not be an empty list"),
                    ('"--port" = 1\n', [], 'line 1: "--port" is no key'),
                    ('"" = 1\n', [], 'line 1: "" is no key'),
                    ('cors-origin = ["https://a.example", "https://b.example/"]\n', [], "line 1:.*https://b.example/")):
                done = serve_with(file, text, "x.gguf", *flags)
                self.assertEqual(done.returncode, 2, (text, done.stderr))
                self.assertRegex(done.stderr, told)
                self.assertEqual(done.stderr.count("\n"), 1)
            # The line wins, also where what it says excludes what the file says. 3: the model comes to be looked for.
            for text, flags, told in (
                    ('unix-socket = "/nowhere/x"\n', ["--port", "0"], r"pagoda: http://127\.0\.0\.1:\d+ answers"),
                    ('unix-socket = "/nowhere/x"\n', ["--host", "127.0.0.2", "--port=0"], r"pagoda: http://127\.0\.0\.2"),
                    ('host = "192.0.2.1"\nport = 1\n', ["--unix-socket", file.name + ".socket"], "pagoda: unix:/"),
                    ("port = 0\nkv-tokens = 100\n", ["--kv-bytes=9"], "pagoda: http://127")):
                done = serve_with(file, text, "/nowhere.gguf", *flags)
                self.assertEqual(done.returncode, 3, (text, done.stderr))
                self.assertRegex(done.stderr, told)
        for origin in ("https://a.example", "http://localhost:3000", "http://[::1]:81", "tauri://localhost", "*"):
            done = subprocess.run([PROGRAM, "serve", "/nowhere.gguf", "--port", "0", "--cors-origin", origin],
                                  capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 3, (origin, done.stderr))
        for origin in ("https://a.example/", "a.example", "https://A.example", "https://a.example:443", "null",
                       "https://", "https://a.example:0", "https://a.example:99999", "https://a.example/path",
                       "https://a b", "http://[::1", "https://*.example"):
            done = subprocess.run([PROGRAM, "serve", "/nowhere.gguf", "--port", "0", "--cors-origin", origin],
                                  capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 2, (origin, done.stderr))
            self.assertIn(f'"{origin}"', done.stderr)
        done = subprocess.run([PROGRAM, "serve", "x.gguf",
                               "--config", "/nowhere.toml"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)


class Ends(unittest.TestCase):
    def streams(self, server, count, tokens):
        body = json.dumps(completion(max_tokens=tokens, ignore_eos=True, stream=True)).encode()
        clients = []
        for _ in range(count):
            client = server.connect()
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
            clients.append(client)
        server.wait_for(lambda: server.metric("num_requests_running") + server.metric("num_requests_waiting") >= count)
        return clients

    def test_sigterm_lets_streams_finish(self):
        # Time enough for a sanitizer's build on a busy machine.
        with Server("--ctx", "256", "--max-running", "64", "--drain-timeout", "300") as server:
            idle = server.connect()
            clients = self.streams(server, 16, 24)
            server.process.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            self.assertEqual(read_all(idle), b"")  # closed at once
            self.assertLess(time.monotonic() - begin, 2)
            with self.assertRaises(OSError):
                server.connect(timeout=2)
            for client in clients:
                data = read_all(client)
                self.assertIn(b'"finish_reason":"length"', data)
                self.assertIn(b"data: [DONE]", data)
            self.assertEqual(server.process.wait(10), 0)

    def test_sigterm_cuts_what_takes_too_long(self):
        with Server("--ctx", "4096", "--kv-tokens", "16384", "--drain-timeout", "0.5") as server:
            clients = self.streams(server, 4, 4000)
            for client in clients:
                client.recv(100)
            server.process.send_signal(signal.SIGTERM)
            for client in clients:
                data = read_all(client)
                self.assertIn(b"shutting_down", data)
                self.assertTrue(data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), data[-100:])
            self.assertEqual(server.process.wait(10), 0)

    def test_sigterm_does_not_wait_for_half_a_request(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                            "-nodes", "-keyout", key, "-out", cert, "-subj", "/CN=localhost"],
                           check=True, capture_output=True)
            for flags in ([], ["--tls-cert", cert, "--tls-key", key]):
                with Server("--ctx", "256", *flags) as server:
                    head, body = server.connect(), server.connect()
                    head.sendall(b"\x16\x03\x01\x02" if flags else b"POST /v1/compl")
                    if not flags:
                        body.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                     b"Content-Length: 30\r\n\r\n{")
                    time.sleep(0.2)
                    server.process.send_signal(signal.SIGTERM)
                    begin = time.monotonic()
                    for client in (head, body):
                        answer = read_all(client)
                        self.assertEqual(statuses(answer), [] if flags else [503])
                        client.close()
                    self.assertEqual(server.process.wait(10), 0)
                    self.assertLess(time.monotonic() - begin, 4)

    def test_sigterm_before_the_server_listens(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = os.path.join(folder, "keys")
            os.mkfifo(keys)
            for number in (signal.SIGTERM, signal.SIGINT):
                process = subprocess.Popen([PROGRAM, "serve", MODEL, "--port", "0", "--api-key-file", keys],
                                           stderr=subprocess.PIPE)
                with open(keys, "w"):  # it is reading them
                    process.send_signal(number)
                    self.assertEqual(process.wait(10), 0)
                process.stderr.close()

    def test_a_second_signal_ends_at_once(self):
        with Server("--ctx", "4096", "--kv-tokens", "16384") as server:
            clients = self.streams(server, 2, 4000)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(5), 0)
            for client in clients:
                client.close()

    def test_a_taken_port_is_told_before_the_model_is_read(self):
        with Server("--ctx", "256") as server:
            done = subprocess.run([PROGRAM, "serve", "no.gguf",
                                   "--port", str(server.port)], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"cannot listen on 127.0.0.1:{server.port}: .* --port takes another port")


if __name__ == "__main__":
    unittest.main()
