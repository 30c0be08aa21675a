"""What is answered while the model is loaded: a tokenizer.json that is a pipe holds the load as long as a test wants."""
import json
import os
import signal
import socket
import tempfile
import time
import unittest

from made_up_test import write_model
from serving import Server, read_all


class Loading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.model = write_model(self.folder)
        os.remove(os.path.join(self.folder, "chat_template.jinja"))
        self.pipe = os.path.join(self.folder, "tokenizer.json")
        with open(self.pipe, "rb") as file:
            self.tokenizer = file.read()
        os.remove(self.pipe)
        os.mkfifo(self.pipe)

    def start(self, *flags, **more):
        server = Server("--dummy-weights", "--tokenizer", self.folder, "--kv-tokens", "1024", *flags, model=self.model,
                        loaded=False, **more)
        self.addCleanup(server.__exit__)
        return server

    def release(self, text):
        with open(self.pipe, "wb") as file:
            file.write(text)

    def test_503_until_the_model_is_there(self):
        server = self.start("--alias", "made-up", "--api-key", "k")
        key = {"Authorization": "Bearer k"}

        def health():
            status, headers, data = server.get("/health")
            self.assertEqual((status, headers["retry-after"]), (503, "1"))
            return json.loads(data)

        def weights_are_read():
            state = health()
            self.assertEqual(state["status"], "loading")
            self.assertLessEqual(state["bytes_loaded"], state["bytes_total"])
            return 0 < state["bytes_total"] == state["bytes_loaded"]

        self.assertTrue(server.wait_for(weights_are_read))
        total = health()["bytes_total"]
        self.assertEqual(health()["phase"], "reading weights")
        # An untied head and embedding, two layers of the sizes in write_model, in bf16, and norms.
        self.assertGreater(total, 2 * (2 * 320 * 64 + 2 * 3 * 64 * 128))
        self.assertEqual(server.get("/ready")[0], 503)
        self.assertEqual(server.request("HEAD", "/health")[::2], (503, b""))
        self.assertEqual(server.get("/")[0], 200)
        self.assertEqual(json.loads(server.get("/version", headers=key)[2]).keys(), {"version"})
        metrics = server.get("/metrics", headers=key)[2].decode()
        self.assertIn('pagoda_model_loaded{model_name=""} 0\n', metrics)
        self.assertIn(f'pagoda_load_bytes{{model_name=""}} {total}\n', metrics)
        for method, path in (("GET", "/v1/models"), ("GET", "/v1/models/made-up"), ("GET", "/openapi.json"),
                             ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("POST", "/tokenize"),
                             ("POST", "/detokenize")):
            self.assertEqual(server.request(method, path)[0], 401, path)
            status, headers, data = server.request(method, path, {"prompt": "x"} if method == "POST" else None, key)
            self.assertEqual((status, headers["retry-after"]), (503, "1"), path)
            error = json.loads(data)["error"]
            self.assertEqual((error["type"], error["param"], error["code"]), ("server_error", None, "model_loading"))
            self.assertIn(f"{total} of {total} bytes", error["message"])
        self.assertEqual(server.get("/nowhere", headers=key)[0], 404)
        self.assertEqual(server.get("/v1/completions", headers=key)[0], 405)
        self.release(self.tokenizer)
        server.wait_for_line("serves")
        self.assertEqual(json.loads(server.get("/health")[2]), {"status": "ok"})
        self.assertEqual(server.get("/ready")[0], 200)
        body = {"model": "made-up", "prompt": "x", "max_tokens": 2}
        self.assertEqual(server.request("POST", "/v1/completions", body, key)[0], 200)
        metrics = server.get("/metrics", headers=key)[2].decode()
        self.assertIn('pagoda_model_loaded{model_name="made-up"} 1\n', metrics)
        self.assertIn('pagoda_requests_refused_total{model_name="made-up",reason="loading"} 7\n', metrics)
        # And this model has no chat template.
        body = {"model": "made-up", "messages": [{"role": "user", "content": "hi"}]}
        status, _, data = server.request("POST", "/v1/chat/completions", body, key)
        self.assertEqual(status, 400)
        self.assertEqual(json.loads(data)["error"]["code"], "no_chat_template")
        api = json.loads(server.get("/openapi.json", headers=key)[2])
        self.assertNotIn("/v1/chat/completions", api["paths"])

    def test_a_failed_load_ends_with_its_own_code(self):
        server = self.start()
        client = server.connect()  # idle, and in nobody's way
        self.release(b"{}")
        self.assertEqual(server.process.wait(10), 3)
        self.assertEqual(read_all(client), b"")
        client.close()
        self.assertRegex(server.log(), "(?m)^pagoda: error: .*tokenizer.json")
        self.assertNotIn(" serves ", server.log())

    def test_a_signal_while_it_loads(self):
        path = os.path.join(self.folder, "socket")
        server = self.start("--unix-socket", path, fixed_address=True)
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertIn(b" 503 ", read_all(client))
        client.close()
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(10), 0)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
