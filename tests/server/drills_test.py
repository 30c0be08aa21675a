"""Drills: many clients that behave badly, beside some that do not. PAGODA_DRILL_SCALE multiplies their numbers; at 1
they are those of a release (`make soak`). What a drill measures is told on stderr. Where the engine's steps need not take
their time, a tiny model stands for a real one: more happens in each second."""
import ctypes
import glob
import json
import os
import random
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from made_up_test import write_model
from serving import MODEL, NAME, PROGRAM, Server, chat, completion, read_all

SCALE = float(os.environ.get("PAGODA_DRILL_SCALE", "1"))


def scaled(count):
    return max(1, int(count * SCALE))


def setUpModule():
    global folder, tiny_model
    folder = tempfile.TemporaryDirectory()
    tiny_model = write_model(folder.name, context=4096)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def tearDownModule():
    folder.cleanup()


def tiny_flags(*flags):
    return ["--dummy-weights", "--tokenizer", folder.name, "--alias", NAME, *flags]


def tiny_server(*flags, **more):
    return Server(*tiny_flags(*flags), model=tiny_model, **more)


def post(body, path="/v1/completions"):
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


def closing(data):
    """The same request, after which the connection ends."""
    return data.replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n", 1)


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def in_threads(count, work):
    """Runs `work` in so many threads; the first that raised is raised here."""
    raised = []

    def one():
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def tell(drill, **figures):
    print(json.dumps({"drill": drill, "scale": SCALE, **figures}), file=sys.stderr)


class Drills(unittest.TestCase):
    def settle(self, server, idle_blocks, idle_descriptors, seconds=5):
        """All is back within a second or so (this machine may be busy)."""
        self.assertTrue(server.wait_for(
            lambda: server.metric("num_requests_running") + server.metric("num_requests_waiting") == 0
            and server.metric("kv_blocks_used") == idle_blocks and descriptors(server) <= idle_descriptors + 1, seconds),
            server.get("/metrics")[2].decode()[:1500])

    def test_disconnects_at_random_moments(self):
        with tiny_server("--ctx", "4096", "--kv-tokens", "16384") as server:
            server.post("/v1/completions", completion(max_tokens=1))
            idle = server.metric("kv_blocks_used"), descriptors(server)
            rng = random.Random(3)

            def leave():
                for _ in range(scaled(1000) // 32 + 1):
                    data = post(completion("word " * rng.randrange(1, 300), max_tokens=rng.choice([4, 40, 2000]), ignore_eos=True,
                                           stream=rng.random() < 0.7))
                    client = server.connect()
                    client.sendall(data[:rng.randrange(len(data))] if rng.random() < 0.2 else data)
                    client.settimeout(rng.choice([0.001, 0.01, 0.05, 0.2]))
                    try:
                        client.recv(rng.choice([1, 500, 5000]))
                    except TimeoutError:
                        pass
                    kind = rng.random()
                    if kind < 0.4:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    elif kind < 0.6:
                        client.shutdown(socket.SHUT_WR)
                    client.close()

            in_threads(32, leave)
            self.settle(server, *idle)
            self.assertEqual(server.post("/v1/completions", completion(max_tokens=2))[0], 200)
            tell("disconnects", clients=32 * (scaled(1000) // 32 + 1), aborted=server.metric("requests_aborted_total"))

    def test_slow_sockets_beside_live_streams(self):
        with tiny_server("--ctx", "512", "--header-timeout", "3") as server:
            def first_event():
                begin = time.monotonic()
                with server.connect() as client:
                    client.sendall(closing(post(completion(max_tokens=3, stream=True))))
                    data = client.recv(65536)
                    first = time.monotonic() - begin
                    self.assertIn(b"[DONE]", data + read_all(client))
                return first

            first_event()
            alone = [first_event() for _ in range(scaled(100))]
            slow = [server.connect() for _ in range(scaled(1000))]
            watch = selectors.DefaultSelector()
            begin = time.monotonic()
            for client in slow:
                client.sendall(b"G")
                client.setblocking(False)
                watch.register(client, selectors.EVENT_READ)
            beside = []
            while time.monotonic() - begin < 2 and len(beside) < scaled(100):  # all of the slow ones are still there
                beside.append(first_event())
            told = 0
            while told < len(slow) and time.monotonic() - begin < 20:
                for key, _ in watch.select(timeout=1):
                    data = key.fileobj.recv(1000)
                    self.assertIn(b" 408 ", data.split(b"\r\n")[0])
                    told += 1
                    watch.unregister(key.fileobj)
                    key.fileobj.close()
            self.assertEqual(told, len(slow))
            tell("slow sockets", sockets=told, last_closed_s=round(time.monotonic() - begin, 2), streams=len(beside),
                 first_event_ms_p50_alone=round(1e3 * quantile(alone, 0.5), 1),
                 first_event_ms_p50_beside=round(1e3 * quantile(beside, 0.5), 1),
                 first_event_ms_p99_alone=round(1e3 * quantile(alone, 0.99), 1),
                 first_event_ms_p99_beside=round(1e3 * quantile(beside, 0.99), 1))
            # The machine may be busy with other things, too: a server that looked at every slow socket would be far above.
            self.assertLess(quantile(beside, 0.5), 2 * quantile(alone, 0.5) + 0.05)

    def test_clients_that_do_not_read(self):
        with tiny_server("--ctx", "512", "--write-timeout", "1", "--kv-tokens", "5600") as server:
            server.post("/v1/completions", completion(max_tokens=1))
            idle = server.metric("kv_blocks_used"), descriptors(server)
            large = chat(n=16, logprobs=True, top_logprobs=20, max_tokens=300, ignore_eos=True, stream=True)  # over 10 MB
            server.request("POST", "/v1/chat/completions", large)  # makes the cache's pages real
            before = int(open(f"/proc/{server.process.pid}/statm").read().split()[1]) * 4096
            clients = []
            for _ in range(2):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect((server.host, server.port))
                client.sendall(post(large, "/v1/chat/completions"))
                clients.append(client)
            self.assertTrue(server.wait_for(lambda: server.metric("requests_aborted_total") >= 2, 180))
            self.settle(server, *idle)
            after = int(open(f"/proc/{server.process.pid}/statm").read().split()[1]) * 4096
            self.assertLess(after - before, 16 << 20)
            for client in clients:
                client.close()

    def test_overload_answers_everybody(self):
        """Four times as many clients at once as the server runs and queues, for a minute."""
        with Server("--ctx", "256", "--max-running", "4", "--max-queued", "8") as server:
            offered, answered, refusal_s = [], [], []
            end = time.monotonic() + 60 * SCALE

            def ask():
                while time.monotonic() < end:
                    offered.append(None)
                    begin = time.monotonic()
                    status, headers, data = server.request("POST", "/v1/completions",
                                                           completion(max_tokens=8, ignore_eos=True))
                    if status == 429:
                        refusal_s.append(time.monotonic() - begin)
                        self.assertIn("retry-after", headers)
                    json.loads(data)
                    answered.append(status)

            in_threads(48, ask)
            self.assertEqual(len(answered), len(offered))
            self.assertEqual(set(answered), {200, 429})
            begin = time.monotonic()
            self.assertEqual(server.post("/v1/completions", completion(max_tokens=2))[0], 200)
            normal_s = time.monotonic() - begin
            self.assertLess(normal_s, 5)
            self.assertEqual(server.metric("requests_refused_total"), answered.count(429))
            self.assertEqual(server.metric("num_requests_running") + server.metric("num_requests_waiting"), 0)
            tell("overload", offered=len(offered), answered=len(answered), refused=len(refusal_s),
                 refusal_ms_p99=round(1e3 * quantile(refusal_s, 0.99), 1), normal_after_s=round(normal_s, 2))

    def test_cancelled_requests_leave_the_idle_block_count(self):
        """CASES E1: lengths around whole blocks."""
        with tiny_server("--ctx", "256", "--max-running", "16") as server:
            server.post("/v1/completions", completion(max_tokens=1))
            idle = server.metric("kv_blocks_used"), descriptors(server)
            rng = random.Random(5)
            cancelled = []

            def ask():
                for _ in range(scaled(2000) // 16 + 1):
                    body = completion([rng.randrange(256) for _ in range(rng.choice([15, 16, 17, 31, 32, 33]))],
                                      max_tokens=rng.choice([1, 15, 16, 17]), stream=True)
                    client = server.connect()
                    client.sendall(closing(post(body)))
                    if rng.random() < 0.25:
                        client.recv(rng.choice([1, 3000]))
                        cancelled.append(None)
                    else:
                        self.assertIn(b"[DONE]", read_all(client))
                    client.close()

            in_threads(16, ask)
            self.settle(server, *idle)
            tell("cancelled", requests=16 * (scaled(2000) // 16 + 1), cancelled=len(cancelled), idle_blocks=idle[0])

    def test_sigterm_under_64_streams(self):
        # A sanitizer's build takes seconds for a step of 64.
        with Server("--ctx", "256", "--max-running", "64", "--drain-timeout", "300") as server:
            clients = []
            for _ in range(64):
                client = server.connect()
                client.sendall(post(completion(max_tokens=max(10, scaled(30)), ignore_eos=True, stream=True)))
                clients.append(client)
            self.assertTrue(server.wait_for(lambda: server.metric("num_requests_running") >= 32, 60))
            server.process.send_signal(signal.SIGTERM)
            for client in clients:
                self.assertIn(b"data: [DONE]", read_all(client))
            self.assertEqual(server.process.wait(10), 0)

    def test_kill_leaves_nothing_in_the_way(self):
        """At random times, on a port and on a Unix socket whose file is left behind."""
        rng = random.Random(7)
        with tiny_server("--ctx", "256") as first, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            places = [["--port", str(first.port)], ["--unix-socket", path]]
            first.kill()
            restart_s = []
            for attempt in range(scaled(40)):
                begin = time.monotonic()
                server = tiny_server("--ctx", "256", *places[attempt % 2], fixed_address=True)
                restart_s.append(time.monotonic() - begin)
                client = socket.socket(socket.AF_UNIX) if attempt % 2 else server.connect()
                if attempt % 2:
                    client.connect(path)
                client.sendall(post(completion(max_tokens=230, ignore_eos=True, stream=True)))
                time.sleep(rng.choice([0, 0.01, 0.1]))
                server.kill()
                client.close()
                loading = subprocess.Popen([PROGRAM, "serve", MODEL, "--ctx", "256", *places[attempt % 2]],
                                           stderr=subprocess.DEVNULL)
                time.sleep(rng.random() * 0.5)
                loading.kill()
                loading.wait()
            for place in places:
                with tiny_server("--ctx", "256", *place, fixed_address=True) as server:
                    if server.url.startswith("http"):
                        self.assertEqual(server.post("/v1/completions", completion(max_tokens=2))[0], 200)
            self.assertFalse(os.path.exists(path))
            tell("kill -9", rounds=len(restart_s), restart_s_max=round(max(restart_s), 2))

    def test_a_step_that_hangs_ends_the_server(self):
        """The engine's thread is stopped in the midst of a stream: unhealthy after 30 s, gone after 60."""
        if SCALE < 1:
            self.skipTest("takes more than a minute: make soak")
        with Server("--ctx", "4096", "--kv-tokens", "8192") as server:
            client = server.connect(timeout=100)
            client.sendall(closing(post(completion(max_tokens=4000, ignore_eos=True, stream=True))))
            client.recv(100)
            with StoppedEngine(server):
                begin = time.monotonic()
                self.assertEqual(server.get("/health")[0], 200)
                self.assertTrue(server.wait_for(lambda: server.get("/health")[0] == 503, 40))
                unhealthy_s = time.monotonic() - begin
                self.assertEqual(json.loads(server.get("/health")[2]), {"status": "no progress"})
                data = read_all(client)
                self.assertIn(b'"error"', data)
                self.assertTrue(server.wait_for(lambda: has_ended(server.process.pid), 40))
                ended_s = time.monotonic() - begin
            self.assertEqual(server.process.wait(10), 1)
            self.assertRegex(server.log(), r"pagoda: error: the engine has work and took no step for 6\d s")
            tell("hung step", unhealthy_s=round(unhealthy_s, 2), ended_s=round(ended_s, 2))
            self.assertLess(unhealthy_s, 33)
            self.assertLess(ended_s, 66)

    def test_a_hung_step_does_not_outlive_a_drain(self):
        with Server("--ctx", "4096", "--kv-tokens", "8192", "--drain-timeout", "0.5") as server:
            client = server.connect()
            client.sendall(closing(post(completion(max_tokens=4000, ignore_eos=True, stream=True))))
            client.recv(100)
            with StoppedEngine(server):
                server.process.send_signal(signal.SIGTERM)
                self.assertIn(b"shutting_down", read_all(client))
                self.assertTrue(server.wait_for(lambda: has_ended(server.process.pid), 20))
            self.assertEqual(server.process.wait(10), 1)
            self.assertIn("a step of it does not end", server.log())


def has_ended(pid):
    """Nothing runs any more, whether or not somebody has asked for the code."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] in "ZX"


def busiest_thread(pid):
    """The engine's: it has computed all that was drawn, with --threads 1."""
    def ticks(path):
        with open(path) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    before = {path: ticks(path) for path in glob.glob(f"/proc/{pid}/task/*/stat")}
    end = time.monotonic() + 20
    while time.monotonic() < end:
        time.sleep(0.2)
        most, path = max((ticks(path) - before[path], path) for path in before)
        if most >= 15:
            return int(path.split("/")[4])
    raise RuntimeError("no thread computes")


class StoppedEngine:
    """The engine's thread, stopped as a debugger stops it: stands for a call that never returns."""

    SEIZE, INTERRUPT, DETACH, ALL_CHILDREN = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, server):
        self.server = server
        self.thread = busiest_thread(server.process.pid)
        self.libc = ctypes.CDLL(None, use_errno=True)

    def ask(self, what):
        return self.libc.ptrace(what, self.thread, None, None)

    def __enter__(self):
        for _ in range(20):
            if self.ask(self.SEIZE) or self.ask(self.INTERRUPT):
                why = os.strerror(ctypes.get_errno())
                raise unittest.SkipTest(f"this machine lets no process trace its child: {why}")
            os.waitpid(self.thread, self.ALL_CHILDREN)
            try:
                self.server.get("/version", timeout=3)
                return
            except TimeoutError:  # it was caught with a lock in its hand, in which no step hangs
                self.ask(self.DETACH)
                time.sleep(0.1)
        raise RuntimeError("the thread cannot be stopped outside of locks")

    def __exit__(self, *_):
        self.ask(self.DETACH)  # has no effect on one that was killed with its process
        try:
            os.waitpid(self.thread, self.ALL_CHILDREN | os.WNOHANG)
        except ChildProcessError:
            pass


if __name__ == "__main__":
    unittest.main()
