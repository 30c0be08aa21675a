"""A model whose weights are made up, with a tokenizer from elsewhere: reasoning, and ids that stand for no text."""
import http.client
import json
import os
import random
import re
import resource
import subprocess
import tempfile
import unittest

from serving import PROGRAM, Server, events

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
THINK, CLOSE, END, TOKENS, MODEL_TOKENS = 256, 257, 258, 259, 320

TEMPLATE = ("{% for m in messages %}{{ m.content }}{% endfor %}"
            "{% if add_generation_prompt and (enable_thinking is not defined or enable_thinking) %}<think>\n{% endif %}")


def byte_characters():
    """The characters by which byte-level vocabularies write the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def write_model(folder, context=512, around=None, spaced=False):
    """Leaves a tiny model's config.json and a tokenizer of bytes in the folder; returns what `serve` is given. `around`:
    the tokenizer's post_processor; `spaced`: it puts a space before a text."""
    with open(os.path.join(ROOT, "configs/Qwen3-4B.json")) as file:
        config = json.load(file)
    config.update(vocab_size=MODEL_TOKENS, hidden_size=64, num_hidden_layers=2, intermediate_size=128, head_dim=32,
                  num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=context, max_window_layers=2,
                  eos_token_id=END, bos_token_id=END)
    added = [{"id": id, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": special} for id, text, special in
             ((THINK, "<think>", False), (CLOSE, "</think>", False), (END, "<|im_end|>", True))]
    characters = byte_characters()
    level = {"type": "ByteLevel", "add_prefix_space": spaced, "trim_offsets": True, "use_regex": True}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                 "pre_tokenizer": level, "post_processor": around, "decoder": level,
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                           "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                           "vocab": {characters[b]: b for b in range(256)}, "merges": []}}
    for name, text in (("config.json", json.dumps(config)), ("tokenizer.json", json.dumps(tokenizer)),
                       ("chat_template.jinja", TEMPLATE)):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    return os.path.join(folder, "config.json")


class WithoutTokenizer(unittest.TestCase):
    def test_is_not_served(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PROGRAM, "serve", write_model(folder), "--dummy-weights", "--port", "0", "--kv-tokens",
                                   "1024"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("needs a tokenizer", done.stderr)


class MadeUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server("--dummy-weights", "--tokenizer", cls.folder.name, "--alias", "made-up", "--kv-tokens", "8192",
                            model=write_model(cls.folder.name))

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def ask(self, **more):
        body = {"model": "made-up", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 60, "temperature": 1,
                "logit_bias": {str(CLOSE): 2.5}, "ignore_eos": True, **more}
        status, whole = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, 200, whole)
        data = self.server.request("POST", "/v1/chat/completions", {**body, "stream": True})[2]
        deltas = [json.loads(e)["choices"][0]["delta"] for e in events(data)[:-1]]
        message = whole["choices"][0]["message"]
        for name in ("content", "reasoning_content"):
            self.assertEqual("".join(d.get(name, "") for d in deltas), message.get(name, ""), (name, more))
        return message

    def test_reasoning_is_the_same_streamed_or_not(self):
        both = 0
        for seed in range(12):
            message = self.ask(seed=seed)
            self.assertNotIn("<think>", message["content"][:7])
            self.assertNotIn("</think>", message.get("reasoning_content", ""))
            if message["content"] and message.get("reasoning_content"):
                both += 1
                stop = message["content"][:2]
                stopped = self.ask(seed=seed, stop=[stop])
                self.assertNotIn(stop, stopped["content"])
                stopped = self.ask(seed=seed, stop=[message["reasoning_content"][:2]])
                self.assertEqual(stopped["content"], "")
        self.assertGreater(both, 2)

    def test_stop_strings_neither_match_nor_show_marks(self):
        """Each text is cut as if the other and the mark between them were not there."""
        num_cut = num_both = 0
        for seed in range(6):
            asked = {"seed": seed, "logit_bias": {str(CLOSE): 4}}
            whole = self.ask(**asked)
            thought, said = whole.get("reasoning_content", ""), whole["content"]
            num_both += bool(thought and said)
            for stop in ("<", "</", "think", "k", "t", ">", "</think>", ">" + said[:1], thought[-1:] + "<"):
                message = self.ask(**asked, stop=[stop])
                expected = (thought.split(stop)[0], "" if stop in thought else said.split(stop)[0])
                self.assertEqual((message.get("reasoning_content", ""), message["content"]), expected, (seed, stop))
                num_cut += expected != (thought, said)
        self.assertGreater(num_cut, 3)
        self.assertGreater(num_both, 3)
        # A mark that the model itself writes. What looks like a second one is text.
        message = self.ask(seed=1, enable_thinking=False, logit_bias={str(THINK): 100}, stop=[">"])
        self.assertEqual((message.get("reasoning_content"), message["content"]), ("<think", ""))

    def test_i2_characters_cut_by_max_tokens(self):
        """Bytes drawn at random are hardly ever whole characters."""
        for tokens in range(1, 9):
            for seed in range(2):
                self.ask(seed=seed, max_tokens=tokens, temperature=2, logit_bias={}, enable_thinking=False)
                body = {"model": "made-up", "prompt": "é🌶"[:1 + seed % 2], "max_tokens": tokens, "temperature": 2,
                        "seed": seed, "ignore_eos": True}
                whole = self.server.post("/v1/completions", body)[1]["choices"][0]["text"]
                data = self.server.request("POST", "/v1/completions", {**body, "stream": True})[2]
                parts = [json.loads(e)["choices"][0]["text"] for e in events(data)[:-1]]
                self.assertEqual("".join(parts), whole)
                whole.encode()  # no half of a surrogate pair

    def peak_bytes(self):
        with open(f"/proc/{self.server.process.pid}/status") as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024

    def test_many_choices_with_many_long_stops(self):
        """What finds the stops is a megabyte here, and there are 1,024 choices."""
        rng = random.Random(1)
        stops = ["".join(chr(rng.randrange(0x10000, 0x20000)) for _ in range(256)) for _ in range(16)]
        before = self.peak_bytes()
        body = {"model": "made-up", "prompt": ["hi"] * 8, "n": 128, "max_tokens": 2, "stop": stops, "ignore_eos": True}
        status, whole = self.server.post("/v1/completions", body)
        self.assertEqual(status, 200, whole)
        self.assertEqual(len(whole["choices"]), 1024)
        self.assertLess(self.peak_bytes() - before, 200 << 20)

    def test_a_body_that_memory_does_not_suffice_for(self):
        """Whatever finds none, it is that request's error. A limit of the address space makes malloc say so."""
        with open(f"/proc/{self.server.process.pid}/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        if now > 1 << 40:
            self.skipTest("a sanitizer's build has all addresses")
        told = 0
        refused = self.server.metric("requests_refused_total")
        before = resource.prlimit(self.server.process.pid, resource.RLIMIT_AS)
        try:
            for room in (12, 16, 24, 32, 48, 64):
                resource.prlimit(self.server.process.pid, resource.RLIMIT_AS, (now + (room << 20), before[1]))
                for size in (2, 5, 11, 23):
                    try:
                        status = self.server.request("POST", "/tokenize", {"prompt": "x" * (size << 20)})[0]
                        self.assertIn(status, (200, 503))
                        told += status == 503
                    except (http.client.HTTPException, OSError):  # not enough to read it
                        pass
                    self.assertIsNone(self.server.process.poll(), (room, size))
        finally:
            if self.server.process.poll() is None:
                resource.prlimit(self.server.process.pid, resource.RLIMIT_AS, before)
        self.assertGreater(told, 1)
        self.assertGreaterEqual(self.server.metric("requests_refused_total"), refused + told)
        self.ask(seed=1)

    def test_without_thinking_all_is_content(self):
        message = self.ask(seed=1, enable_thinking=False)
        self.assertNotIn("reasoning_content", message)

    def test_ids_beyond_the_tokenizer_are_not_drawn_and_not_taken(self):
        body = {"model": "made-up", "prompt": "abc", "max_tokens": 300, "temperature": 2, "seed": 1, "logprobs": 2,
                "ignore_eos": True}
        status, whole = self.server.post("/v1/completions", body)
        self.assertEqual(status, 200, whole)
        tokens = whole["choices"][0]["logprobs"]["tokens"]
        self.assertEqual(len(tokens), 300)
        self.assertNotIn("", tokens)  # 61 of the model's 320 ids have no text
        self.assertEqual(self.server.get("/health")[0], 200)
        for id in (TOKENS, MODEL_TOKENS - 1, MODEL_TOKENS):
            for more in ({"prompt": [id]}, {"logit_bias": {str(id): 1}}, {"stop_token_ids": [id]}):
                status, answer = self.server.post("/v1/completions", {**body, **more})
                self.assertEqual(status, 400, (id, more))
                self.assertEqual(answer["error"]["param"], next(iter(more)))


class AroundText(unittest.TestCase):
    """A model that wants a token before each text, and whose tokenizer adds a space."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        name = "<|im_end|>"
        around = {"type": "TemplateProcessing", "pair": [],
                  "single": [{"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                  "special_tokens": {name: {"id": name, "ids": [END], "tokens": [name]}}}
        model = write_model(cls.folder.name, around=around, spaced=True)
        cls.server = Server("--dummy-weights", "--tokenizer", cls.folder.name, "--kv-tokens", "2048", model=model)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
        cls.folder.cleanup()

    def ask(self, **more):
        return self.server.post("/v1/completions", {"model": "config", "max_tokens": 3, "echo": True, "logprobs": 0,
                                                    "ignore_eos": True, "logit_bias": {"65": 100}, **more})

    def test_offsets_are_places_in_the_text(self):
        for prompt in ("hé!", "é", "h<|im_end|>"):
            status, answer = self.ask(prompt=[prompt, "other"])
            self.assertEqual(status, 200, answer)
            choice = answer["choices"][0]
            self.assertEqual(choice["text"], prompt + "AAA")
            table = choice["logprobs"]
            self.assertEqual(table["tokens"][:2], ["<|im_end|>", " "])
            self.assertEqual(table["text_offset"][:3], [0, 0, 0])
            for token, offset in list(zip(table["tokens"], table["text_offset"]))[2:]:
                if not token.startswith("bytes:"):
                    self.assertTrue(choice["text"][offset:].startswith(token), (token, offset))
            self.assertEqual(table["text_offset"][-3:], [len(prompt), len(prompt) + 1, len(prompt) + 2])
        choice = self.ask(prompt=[END, 104, 105])[1]["choices"][0]  # of ids the text is all that they say
        self.assertEqual((choice["text"], choice["logprobs"]["text_offset"]),
                         ("<|im_end|>hiAAA", [0, 10, 11, 12, 13, 14]))

    def test_an_empty_text_is_a_prompt(self):
        api = json.loads(self.server.get("/openapi.json")[2])
        asked = api["paths"]["/v1/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        self.assertEqual(asked["properties"]["prompt"]["anyOf"][0], {"type": "string", "minLength": 0})
        status, answer = self.ask(prompt="")
        self.assertEqual((status, answer["usage"]["prompt_tokens"]), (200, 1), answer)
        self.assertEqual(answer["choices"][0]["logprobs"]["text_offset"], [0, 0, 1, 2])


if __name__ == "__main__":
    unittest.main()
