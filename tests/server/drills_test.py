"""Drills: many clients that behave badly, beside some that do not. PAGODA_DRILL_SCALE multiplies their numbers."""
import json
import os
import random
import resource
import selectors
import signal
import socket
import struct
import threading
import time
import unittest

from serving import Server, chat, completion, read_all

SCALE = float(os.environ.get("PAGODA_DRILL_SCALE", "1"))


def scaled(count):
    return max(1, int(count * SCALE))


def setUpModule():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def post(body, path="/v1/completions"):
    data = json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


class Drills(unittest.TestCase):
    def settle(self, server, idle_blocks, idle_descriptors, seconds=5):
        """All is back within a second or so (this machine may be busy)."""
        self.assertTrue(server.wait_for(
            lambda: server.metric("num_requests_running") + server.metric("num_requests_waiting") == 0
            and server.metric("kv_blocks_used") == idle_blocks and descriptors(server) <= idle_descriptors + 1, seconds),
            server.get("/metrics")[2].decode()[:1500])

    def test_disconnects_at_random_moments(self):
        with Server("--ctx", "512", "--kv-tokens", "16384") as server:
            server.post("/v1/completions", completion(max_tokens=1))
            idle = server.metric("kv_blocks_used"), descriptors(server)
            rng = random.Random(3)

            def leave(count):
                for _ in range(count):
                    data = post(completion("word " * rng.randrange(1, 300), max_tokens=40, ignore_eos=True,
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

            threads = [threading.Thread(target=leave, args=(scaled(1000) // 32,)) for _ in range(32)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.settle(server, *idle)
            self.assertEqual(server.post("/v1/completions", completion(max_tokens=2))[0], 200)

    def test_slow_sockets_beside_live_streams(self):
        with Server("--ctx", "512", "--header-timeout", "3") as server:
            slow = [server.connect() for _ in range(scaled(1000))]
            watch = selectors.DefaultSelector()
            for client in slow:
                client.sendall(b"G")
                client.setblocking(False)
                watch.register(client, selectors.EVENT_READ)
            begin = time.monotonic()
            answer = server.raw(post(completion(max_tokens=5, stream=True)).replace(
                b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n"))
            self.assertIn(b"[DONE]", answer)
            self.assertLess(time.monotonic() - begin, 10)
            told = 0
            while told < len(slow) and time.monotonic() - begin < 20:
                for key, _ in watch.select(timeout=1):
                    data = key.fileobj.recv(1000)
                    self.assertIn(b" 408 ", data.split(b"\r\n")[0])
                    told += 1
                    watch.unregister(key.fileobj)
                    key.fileobj.close()
            self.assertEqual(told, len(slow))

    def test_clients_that_do_not_read(self):
        with Server("--ctx", "512", "--write-timeout", "1", "--kv-tokens", "5600") as server:
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
        with Server("--ctx", "256", "--max-running", "4", "--max-queued", "8") as server:
            seen, late = [], []
            lock = threading.Lock()

            def ask(count):
                for _ in range(count):
                    begin = time.monotonic()
                    status, headers, data = server.request("POST", "/v1/completions",
                                                           completion(max_tokens=8, ignore_eos=True))
                    with lock:
                        seen.append(status)
                        if status == 429:
                            late.append(time.monotonic() - begin)
                            assert "retry-after" in headers
                    json.loads(data)

            threads = [threading.Thread(target=ask, args=(scaled(10),)) for _ in range(48)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(seen), 48 * scaled(10))  # answered is offered
            self.assertEqual(set(seen), {200, 429})
            self.assertEqual(server.post("/v1/completions", completion(max_tokens=2))[0], 200)
            self.assertEqual(server.metric("requests_refused_total"), seen.count(429))

    def test_cancelled_requests_leave_the_idle_block_count(self):
        """CASES E1: lengths around whole blocks."""
        with Server("--ctx", "256", "--max-running", "16") as server:
            server.post("/v1/completions", completion(max_tokens=1))
            idle = server.metric("kv_blocks_used"), descriptors(server)
            rng = random.Random(5)

            def ask(count):
                for _ in range(count):
                    body = completion([rng.randrange(100, 40000) for _ in range(rng.choice([15, 16, 17, 31, 32, 33]))],
                                      max_tokens=rng.choice([1, 15, 16, 17]), stream=True)
                    client = server.connect()
                    client.sendall(post(body).replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n"))
                    if rng.random() < 0.25:
                        client.recv(rng.choice([1, 3000]))
                    else:
                        data = read_all(client)
                        assert b"[DONE]" in data or b" 429 " in data, data
                    client.close()

            threads = [threading.Thread(target=ask, args=(scaled(2000) // 16,)) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.settle(server, *idle)

    def test_sigterm_under_64_streams(self):
        with Server("--ctx", "256", "--max-running", "64") as server:
            clients = []
            for _ in range(64):
                client = server.connect()
                client.sendall(post(completion(max_tokens=30, ignore_eos=True, stream=True)))
                clients.append(client)
            self.assertTrue(server.wait_for(lambda: server.metric("num_requests_running") >= 32))
            server.process.send_signal(signal.SIGTERM)
            for client in clients:
                self.assertIn(b"data: [DONE]", read_all(client))
            self.assertEqual(server.process.wait(10), 0)

    def test_kill_leaves_nothing_in_the_way(self):
        with Server("--ctx", "256") as first:
            port = str(first.port)
        for round in range(scaled(5)):
            server = Server("--ctx", "256", "--port", port, fixed_address=True)
            client = server.connect()
            client.sendall(post(completion(max_tokens=200, ignore_eos=True, stream=True)))
            if round % 2:
                client.recv(100)
            server.process.kill()
            server.process.wait()
            client.close()
        with Server("--ctx", "256", "--port", port, fixed_address=True) as server:
            self.assertEqual(server.post("/v1/completions", completion(max_tokens=2))[0], 200)


if __name__ == "__main__":
    unittest.main()
