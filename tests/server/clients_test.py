"""Clients that people use, unchanged: openai-python, langchain-openai, llama-benchy, Prometheus, schemathesis
(requirements.txt)."""
import contextlib
import functools
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import openai
import prometheus_client.parser
from langchain_openai import ChatOpenAI, OpenAI as LangChainOpenAI

from made_up_test import write_model
from serving import NAME, Server


def setUpModule():
    global server, client
    server = Server("--ctx", "1024", "--api-key", "key")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="key", max_retries=0)


def tearDownModule():
    server.__exit__()


def token_bytes(token):
    """What a token of logprobs stands for: part of a character is written bytes:\\xda."""
    return bytes.fromhex(token[6:].replace("\\x", "")) if token.startswith("bytes:\\x") else token.encode()


# A run that finds a fault finds it again. Other seeds, and more examples, are for whoever looks for one.
SEED = os.environ.get("PAGODA_SCHEMATHESIS_SEED", "1")
EXAMPLES = os.environ.get("PAGODA_SCHEMATHESIS_EXAMPLES", "10")
HI = [{"role": "user", "content": "Say hello."}]


class OpenAiPython(unittest.TestCase):
    def test_chat(self):
        answer = client.chat.completions.create(model=NAME, messages=HI, max_tokens=6, temperature=0)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertEqual(answer.choices[0].finish_reason, "length")
        self.assertEqual(answer.usage.completion_tokens, 6)
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens % 16, 0)
        whole = answer.choices[0].message.content
        stream = client.chat.completions.create(model=NAME, messages=HI, max_tokens=6, temperature=0, stream=True,
                                                stream_options={"include_usage": True})
        chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(chunks[-1].usage.completion_tokens, 6)
        self.assertEqual(chunks[-1].choices, [])

    def test_nulls_of_its_types(self):
        client.chat.completions.create(model=NAME, messages=HI, max_tokens=1, stop=None, temperature=None, top_p=None,
                                       n=None, seed=None, logprobs=None, top_logprobs=None, logit_bias=None)

    def test_logprobs(self):
        answer = client.chat.completions.create(model=NAME, messages=HI, max_tokens=3, logprobs=True, top_logprobs=2)
        for entry in answer.choices[0].logprobs.content:
            self.assertLessEqual(entry.logprob, 0)
            self.assertEqual(len(entry.top_logprobs), 2)
            self.assertEqual(bytes(entry.bytes), token_bytes(entry.token))

    def test_completions(self):
        answer = client.completions.create(model=NAME, prompt=["a b", "c d"], max_tokens=2, n=2, echo=True, logprobs=1)
        self.assertEqual([c.index for c in answer.choices], [0, 1, 2, 3])
        for choice in answer.choices:
            self.assertEqual(b"".join(map(token_bytes, choice.logprobs.tokens)).decode(errors="replace"), choice.text)
        parts = client.completions.create(model=NAME, prompt=[1, 2, 3], max_tokens=3, stream=True)
        self.assertEqual([p.choices[0].finish_reason for p in parts][-1], "length")

    def test_models(self):
        self.assertEqual([m.id for m in client.models.list()], [NAME])
        self.assertEqual(client.models.retrieve(NAME).owned_by, "pagoda")

    def test_errors(self):
        ask = client.chat.completions.create
        with self.assertRaises(openai.BadRequestError) as caught:
            ask(model=NAME, messages=HI, temperature=9)
        self.assertEqual(caught.exception.param, "temperature")
        self.assertIsNotNone(caught.exception.request_id)
        with self.assertRaises(openai.NotFoundError):
            ask(model="gpt-4", messages=HI)
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=server.url + "/v1", api_key="no", max_retries=0).models.list()
        with self.assertRaises(openai.BadRequestError) as caught:
            client.completions.create(model=NAME, prompt="a " * 3000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")


class LangChain(unittest.TestCase):
    def test_chat(self):
        model = ChatOpenAI(base_url=server.url + "/v1", api_key="key", model=NAME, temperature=0, max_tokens=8)
        whole = model.invoke("Say hello.")
        self.assertEqual(whole.usage_metadata["output_tokens"], 8)
        self.assertEqual("".join(part.content for part in model.stream("Say hello.")), whole.content)

    def test_completions(self):
        model = LangChainOpenAI(base_url=server.url + "/v1", api_key="key", model=NAME, temperature=0, max_tokens=4)
        self.assertTrue(model.invoke("The sky is"))


class LlamaBenchy(unittest.TestCase):
    def test_it_measures_what_was_asked_for(self):
        """A tiny model: what is tested is that each request is taken and counted. No host but this one is asked."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "book.txt"), "w") as book:
                book.write("It was a dark and stormy night; the rain fell in torrents. " * 40)
            with Server("--dummy-weights", "--tokenizer", folder, "--alias", "tiny",
                        model=write_model(folder)) as tiny, serve_folder(folder) as books:
                out = os.path.join(folder, "out.json")
                for more in ([], ["--no-cache"]):  # which asks for cache_prompt: false
                    done = subprocess.run(
                        [sys.executable, "-m", "llama_benchy", "--base-url", tiny.url + "/v1",
                         "--model", "tiny", "--tokenizer", folder, "--book-url", books + "/book.txt", "--pp", "96", "--tg",
                         "24", "--depth", "0", "64", "--concurrency", "1", "3", "--runs", "1", "--exact-tg",
                         "--skip-coherence", "--exit-on-first-fail", "--save-result", out, "--format", "json", *more],
                        capture_output=True, text=True, timeout=120,
                        env={**os.environ, "HOME": folder, "HF_HUB_OFFLINE": "1"})
                    self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
                    with open(out) as file:
                        results = json.load(file)["benchmarks"]
                    self.assertEqual(tiny.metric("requests_refused_total"), 0)
                    self.assertEqual(len(results), 4, results)
                    self.assertNotIn("No complete token_ids", done.stdout)
                # Its own count agrees with the server's: 24 tokens of each of 2 runs x (1 + 3) streams x 2 depths.
                self.assertGreaterEqual(tiny.metric("generation_tokens_total"), 24 * 16)


@contextlib.contextmanager
def serve_folder(folder):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as books:
        threading.Thread(target=books.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{books.server_port}"
        books.shutdown()


class Prometheus(unittest.TestCase):
    def test_its_reader_takes_all_metrics(self):
        client.chat.completions.create(model=NAME, messages=HI, max_tokens=5)
        text = server.get("/metrics", headers={"Authorization": "Bearer key"})[2].decode()
        families = {f.name: f for f in prometheus_client.parser.text_string_to_metric_families(text)}
        self.assertGreater(families["pagoda_generation_tokens"].samples[0].value, 0)
        histograms = [f for f in families.values() if f.type == "histogram"]
        self.assertGreater(len(histograms), 5)
        for family in histograms:
            values = {s.name[len(family.name):]: s.value for s in family.samples}
            buckets = [(float(s.labels["le"]), s.value) for s in family.samples if s.name.endswith("_bucket")]
            self.assertEqual(buckets, sorted(buckets, key=lambda b: b[0]), family.name)
            counts = [count for _, count in buckets]
            self.assertEqual(counts, sorted(counts), family.name)
            self.assertEqual((buckets[-1][0], counts[-1]), (float("inf"), values["_count"]), family.name)
            self.assertIn("_sum", values)


class Schemathesis(unittest.TestCase):
    def test_the_api_is_as_described(self):
        room = ("--ctx", "1280", "--kv-tokens", "16384", "--max-queued", "100000")  # a prompt over --ctx is a 400
        with tempfile.TemporaryDirectory() as folder, Server(*room) as other:
            done = subprocess.run([sys.executable, "-m", "schemathesis.cli", "run", other.url + "/openapi.json",
                                   "--max-examples", EXAMPLES, "--seed", SEED, "--no-color", "--request-timeout", "120"],
                                  capture_output=True, text=True, timeout=1500, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-2000:])
            self.assertEqual(other.get("/health")[0], 200)


if __name__ == "__main__":
    unittest.main()
