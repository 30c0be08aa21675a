"""The OpenAI protocol over real sockets. Names of cases (A1, C3 ...) are those of docs/cases.md."""
import json
import os
import socket
import struct
import threading
import unittest

from serving import NAME, Server, chat, completion, events, masked

GOLDEN = os.path.join(os.path.dirname(__file__), "../golden/server")
REWRITE = os.environ.get("PAGODA_REWRITE_GOLDEN") == "1"


def setUpModule():
    global server
    server = Server("--ctx", "2048", "--kv-tokens", "8192")


def tearDownModule():
    server.__exit__()


def ok(case, answer):
    status, body = answer
    case.assertEqual(status, 200, body)
    return body


def refused(case, answer, status, param, code=None):
    got, body = answer
    case.assertEqual(got, status, body)
    error = body["error"]
    case.assertEqual(set(error), {"message", "type", "param", "code"})
    case.assertEqual(error["param"], param, body)
    if code:
        case.assertEqual(error["code"], code)
    return error["message"]


def stream(path, body):
    status, headers, data = server.request("POST", path, {**body, "stream": True})
    assert status == 200, data
    assert headers["content-type"].startswith("text/event-stream")
    found = events(data)
    assert found[-1] == "[DONE]", found[-1]
    return [json.loads(event) for event in found[:-1]]


class Golden(unittest.TestCase):
    """Streams byte for byte, after ids and times are masked."""

    def check(self, name, path, body):
        golden = os.path.join(GOLDEN, name + ".txt")
        found = []
        # Tokens that come while a chunk waits to be written share the next one: on a busy machine, ask again. The salt
        # keeps an answer's prompt out of the next one's cache.
        for attempt in range(20):
            request = {**body, "stream": True, "cache_salt": f"golden {name} {attempt}"}
            found.append(masked(server.request("POST", path, request)[2].decode()))
            if REWRITE:
                with open(golden, "w") as file:
                    file.write(found[0])
            with open(golden) as file:
                wanted = file.read()
            if found[-1] == wanted:
                return
        self.assertEqual(max(found, key=len), wanted)

    def test_chat(self):
        self.check("chat", "/v1/chat/completions", chat("Say hello.", max_tokens=6))

    def test_chat_usage(self):
        self.check("chat_usage", "/v1/chat/completions",
                   chat("Name a colour.", max_tokens=5, stream_options={"include_usage": True}))

    def test_chat_logprobs(self):
        body = chat("Count to three.", max_tokens=3, logprobs=True, top_logprobs=0)
        found = stream("/v1/chat/completions", body)
        entries = [e for chunk in found for c in chunk["choices"] if c["logprobs"] for e in c["logprobs"]["content"]]
        self.assertEqual(len(entries), 3)
        text = "".join(c["delta"].get("content", "") for chunk in found for c in chunk["choices"])
        self.assertEqual("".join(e["token"] for e in entries), text)

    def test_chat_two_choices(self):
        found = stream("/v1/chat/completions", chat("Say hello.", max_tokens=4, n=2))
        for index in (0, 1):
            own = [c for chunk in found for c in chunk["choices"] if c["index"] == index]
            self.assertEqual(own[0]["delta"], {"role": "assistant", "content": ""})
            self.assertEqual(own[-1]["finish_reason"], "length")
            self.assertTrue(all(c["finish_reason"] is None for c in own[:-1]))

    def test_completion(self):
        self.check("completion", "/v1/completions", completion(max_tokens=4, stream_options={"include_usage": True}))

    def test_completion_stop(self):
        self.check("completion_stop", "/v1/completions", completion("1, 2, 3, 4,", max_tokens=16, stop=[" 7"]))


class Streams(unittest.TestCase):
    def test_stream_is_the_whole_answer(self):
        for text, more in (("Write a line about rain.", {}), ("Say something with emoji 😀", {"stop": ["a", "the"]}),
                           ("hi", {"temperature": 1, "seed": 7}), ("hi", {"n": 3, "temperature": 1.2, "seed": 11})):
            body = chat(text, max_tokens=24, **more)
            whole = ok(self, server.post("/v1/chat/completions", body))
            chunks = stream("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})
            for choice in whole["choices"]:
                own = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
                self.assertEqual("".join(c["delta"].get("content", "") for c in own), choice["message"]["content"])
                self.assertEqual(own[-1]["finish_reason"], choice["finish_reason"])
            self.assertEqual(chunks[-1]["choices"], [])
            usage = chunks[-1]["usage"]
            for field in ("prompt_tokens", "completion_tokens", "total_tokens"):
                self.assertEqual(usage[field], whole["usage"][field])

    def test_c6_no_usage_unless_asked(self):
        """CASES C6."""
        for chunk in stream("/v1/chat/completions", chat(max_tokens=3)):
            self.assertNotIn("usage", chunk)
            self.assertEqual(len(chunk["choices"]), 1)

    def test_c1_stop_prefixes_are_held_back(self):
        """CASES C1."""
        body = completion("1, 2, 3, 4, 5,", max_tokens=40)
        text = ok(self, server.post("/v1/completions", body))["choices"][0]["text"]
        self.assertGreater(len(text), 20)
        stop = text[7:16]
        body["stop"] = [stop, "never said"]
        whole = ok(self, server.post("/v1/completions", body))["choices"][0]
        self.assertEqual(whole["text"], text[:text.index(stop)])
        self.assertEqual(whole["finish_reason"], "stop")
        parts = [c["text"] for chunk in stream("/v1/completions", body) for c in chunk["choices"]]
        self.assertEqual("".join(parts), whole["text"])

    def test_a1_prompt_bytes_are_never_part_of_the_answer(self):
        """CASES A1."""
        ids = ok(self, server.post("/tokenize", {"prompt": "Hello world 🌶"}))["tokens"]
        for cut in (1, 2):
            body = completion(ids[:-cut], max_tokens=6)
            whole = ok(self, server.post("/v1/completions", body))["choices"][0]["text"]
            parts = [c["text"] for chunk in stream("/v1/completions", body) for c in chunk["choices"]]
            self.assertEqual("".join(parts), whole)
            self.assertNotIn("Hello", parts[0])

    def test_i2_a_character_cut_by_max_tokens(self):
        """CASES I2."""
        for tokens in range(1, 5):
            body = completion("🌶🌶🌶🌶🌶🌶", max_tokens=tokens)
            whole = ok(self, server.post("/v1/completions", body))["choices"][0]["text"]
            self.assertEqual("".join(c["text"] for ch in stream("/v1/completions", body) for c in ch["choices"]), whole)

    def test_i1_clients_that_leave(self):
        """CASES I1."""
        idle = server.metric("kv_blocks_used")
        body = json.dumps(chat("Tell a very long story.", max_tokens=1500, stream=True)).encode()
        head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        for kind in ("rst", "fin", "half", "rst"):
            client = server.connect()
            client.sendall(head + body)
            client.recv(4096)
            if kind == "rst":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if kind == "half":
                client.shutdown(socket.SHUT_WR)
                client.settimeout(10)
                while client.recv(65536):
                    pass
            client.close()
        self.assertTrue(server.wait_for(lambda: server.metric("num_requests_running") == 0, 5))
        self.assertEqual(server.metric("kv_blocks_used"), idle)
        ok(self, server.post("/v1/chat/completions", chat(max_tokens=2)))


class Completions(unittest.TestCase):
    def text(self, prompt, **more):
        return [c["text"] for c in ok(self, server.post("/v1/completions", completion(prompt, **more)))["choices"]]

    def test_prompts_of_every_kind(self):
        one, two = "The sky is", "Once upon a"
        ids = [ok(self, server.post("/tokenize", {"prompt": p}))["tokens"] for p in (one, two)]
        texts = [self.text(one, max_tokens=4)[0], self.text(two, max_tokens=4)[0]]
        self.assertEqual(self.text([one, two], max_tokens=4), texts)
        self.assertEqual(self.text(ids[0], max_tokens=4), texts[:1])
        self.assertEqual(self.text(ids, max_tokens=4), texts)
        self.assertEqual(self.text([one, two], max_tokens=4, n=2), [texts[0]] * 2 + [texts[1]] * 2)

    def test_ids_that_are_no_tokens(self):
        for prompt in ([-1], [49152], [1, 49152], [1 << 31], [1 << 63], [1.5], [True], [None], [[1], [49152]], [[1], 2],
                       [1, [2]], ["a", 1], [1, "a"], [[]], [], [["a"]]):
            refused(self, server.post("/v1/completions", completion(prompt, max_tokens=1)), 400, "prompt")
        for tokens in ([-1], [49152], [1.5], "x", [[1]]):
            refused(self, server.post("/detokenize", {"tokens": tokens}), 400, "tokens")

    def test_usage_counts_every_prompt_once(self):
        body = ok(self, server.post("/v1/completions", completion(["a b c", "d e"], max_tokens=3, n=2)))
        count = sum(ok(self, server.post("/tokenize", {"prompt": p}))["count"] for p in ("a b c", "d e"))
        self.assertEqual(body["usage"]["prompt_tokens"], count)
        self.assertEqual(body["usage"]["completion_tokens"], 4 * 3)
        self.assertEqual(body["usage"]["total_tokens"], count + 12)

    def test_metrics_count_every_prompt_once(self):
        names = "prompt_tokens_total", "prompt_tokens_cached_total"
        before = [server.metric(name) for name in names]
        sums = [0, 0]
        for _ in range(2):
            usage = ok(self, server.post("/v1/completions", completion("one of three " * 20, max_tokens=2, n=3)))["usage"]
            sums[0] += usage["prompt_tokens"]
            sums[1] += usage["prompt_tokens_details"]["cached_tokens"]
        self.assertGreater(sums[1], 0)
        told = lambda: [server.metric(name) - old for name, old in zip(names, before)] == sums
        self.assertTrue(server.wait_for(told))

    def test_top_k_of_minus_one_is_all(self):
        """As clients of vLLM and llama.cpp send it."""
        all_tokens = [self.text("The sky is", max_tokens=8, temperature=2, seed=3, top_k=k) for k in (0, -1)]
        self.assertEqual(*all_tokens)
        refused(self, server.post("/v1/completions", completion(max_tokens=1, top_k=-2)), 400, "top_k")

    def test_the_default_is_16_tokens(self):
        body = ok(self, server.post("/v1/completions", completion(ignore_eos=True)))
        self.assertEqual(body["usage"]["completion_tokens"], 16)

    def test_echo(self):
        plain = self.text("The sky is", max_tokens=4)[0]
        self.assertEqual(self.text("The sky is", max_tokens=4, echo=True), ["The sky is" + plain])
        self.assertEqual(self.text("The sky is", max_tokens=0, echo=True), ["The sky is"])

    def test_c4_logprobs_of_prompt_and_answer(self):
        """CASES C4."""
        body = completion("correct horse battery staple", echo=True, logprobs=1, temperature=1, top_k=1, max_tokens=3)
        choice = ok(self, server.post("/v1/completions", body))["choices"][0]
        table = choice["logprobs"]
        count = ok(self, server.post("/tokenize", {"prompt": body["prompt"]}))["count"]
        self.assertEqual({len(v) for v in table.values()}, {count + 3})
        self.assertEqual("".join(table["tokens"]), choice["text"])
        self.assertIsNone(table["token_logprobs"][0])
        self.assertTrue(all(p <= 0 for p in table["token_logprobs"][1:]))
        for token, offset in zip(table["tokens"], table["text_offset"]):
            self.assertTrue(choice["text"][offset:].startswith(token))

    def test_a_part_of_a_character(self):
        """An answer that ends inside a character, and its tokens as bytes."""
        id = ok(self, server.post("/tokenize", {"prompt": "ک"}))["tokens"][0]  # U+06A9, two bytes in two tokens
        body = completion("c d", logit_bias={str(id): 100}, max_tokens=2, temperature=0, logprobs=0)
        choice = ok(self, server.post("/v1/completions", body))["choices"][0]
        self.assertEqual(choice["logprobs"]["tokens"], ["bytes:\\xda"] * 2)
        self.assertEqual(choice["text"], b"\xda\xda".decode(errors="replace"))

    def test_a_number_that_no_float_holds(self):
        for name in ("top_p", "min_p", "temperature", "presence_penalty"):
            ok(self, server.post("/v1/completions", completion(max_tokens=1, **{name: 1.4e-158})))
        narrow = self.text("The sky is", max_tokens=4, temperature=2, seed=1, top_p=1e-158)
        self.assertEqual(narrow, self.text("The sky is", max_tokens=4))

    def test_prompt_logprobs(self):
        whole = ok(self, server.post("/v1/completions", completion("a b c d", prompt_logprobs=2, max_tokens=1, n=2)))
        ids = ok(self, server.post("/tokenize", {"prompt": "a b c d"}))["tokens"]
        for choice in whole["choices"]:
            self.assertIsNone(choice["prompt_logprobs"][0])
            self.assertEqual(len(choice["prompt_logprobs"]), len(ids))
            for id, entry in zip(ids[1:], choice["prompt_logprobs"][1:]):
                self.assertIn(str(id), entry)

    def test_many_prompt_logprobs(self):
        """More than the connections' thread writes by itself."""
        ids = [100 + i * 7 % 20011 for i in range(541)]
        answer = ok(self, server.post("/v1/completions", completion(ids, prompt_logprobs=20, max_tokens=1)))
        found = answer["choices"][0]["prompt_logprobs"]
        self.assertEqual(len(found), len(ids))
        for id, entry in zip(ids[1:], found[1:]):
            self.assertIn(str(id), entry)
            self.assertIn(len(entry), (20, 21))

    def test_logprobs_zero_gives_the_chosen_token(self):
        table = ok(self, server.post("/v1/completions", completion(logprobs=0, max_tokens=2)))["choices"][0]["logprobs"]
        self.assertEqual([list(t) for t in table["top_logprobs"]], [[t] for t in table["tokens"]])

    def test_bias_stop_ids_min_tokens(self):
        id = ok(self, server.post("/tokenize", {"prompt": " banana"}))["tokens"][0]
        text = self.text("I eat a", max_tokens=3, logit_bias={str(id): 100})
        forced = ok(self, server.post("/detokenize", {"tokens": [id] * 3}))["prompt"]
        self.assertEqual(text, [forced])
        body = completion("I eat a", max_tokens=5, logit_bias={str(id): 100}, stop_token_ids=[id])
        choice = ok(self, server.post("/v1/completions", body))["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"]), ("", "stop"))
        body = ok(self, server.post("/v1/chat/completions", chat("Say hi.", max_tokens=40, min_tokens=40)))
        self.assertEqual(body["usage"]["completion_tokens"], 40)

    def test_seeds(self):
        body = completion("Once upon a time", max_tokens=12, temperature=1.5, seed=-5, n=2)
        first = [c["text"] for c in ok(self, server.post("/v1/completions", body))["choices"]]
        again = [c["text"] for c in ok(self, server.post("/v1/completions", body))["choices"]]
        self.assertEqual(first, again)
        self.assertNotEqual(first[0], first[1])
        # Choice i draws from (seed, i), however many there are.
        for n in (1, 3):
            choices = ok(self, server.post("/v1/completions", {**body, "n": n}))["choices"]
            self.assertEqual([c["text"] for c in choices[:2]], first[:n])
        other = ok(self, server.post("/v1/completions", {**body, "seed": 5}))["choices"]
        self.assertNotEqual([c["text"] for c in other], first)

    def test_token_ids_beside_the_text(self):
        """Clients that measure count tokens by them."""
        def joined(parts):
            return [id for part in parts for id in part]

        prompts = [ok(self, server.post("/tokenize", {"prompt": text}))["tokens"] for text in ("One, two,", "A B C D")]
        body = completion(prompts, n=2, max_tokens=9, ignore_eos=True, return_token_ids=True)
        choices = ok(self, server.post("/v1/completions", body))["choices"]
        streamed = [c for chunk in stream("/v1/completions", body) for c in chunk["choices"]]
        for choice in choices:
            prompt = prompts[choice["index"] // 2]
            self.assertEqual(choice["prompt_token_ids"], prompt)
            self.assertEqual(ok(self, server.post("/detokenize", {"tokens": choice["token_ids"]}))["prompt"], choice["text"])
            own = [c for c in streamed if c["index"] == choice["index"]]
            self.assertEqual(joined(c.get("token_ids", []) for c in own), choice["token_ids"])
            self.assertEqual([c["prompt_token_ids"] for c in own if "prompt_token_ids" in c], [prompt])

        body = chat("Count to five.", max_tokens=12, ignore_eos=True, return_token_ids=True, stop=["2"], n=2, seed=5)
        whole = ok(self, server.post("/v1/chat/completions", body))
        self.assertEqual(len(whole["prompt_token_ids"]), whole["usage"]["prompt_tokens"])
        self.assertEqual(sum(len(c["token_ids"]) for c in whole["choices"]), whole["usage"]["completion_tokens"])
        chunks = list(stream("/v1/chat/completions", body))
        self.assertEqual([c["prompt_token_ids"] for c in chunks if "prompt_token_ids" in c],
                         [whole["prompt_token_ids"]] * 2)
        for choice in whole["choices"]:
            own = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
            self.assertEqual(joined(c.get("token_ids", []) for c in own), choice["token_ids"])
        plain = ok(self, server.post("/v1/chat/completions", {**body, "return_token_ids": False}))
        self.assertNotIn("token_ids", plain["choices"][0])
        self.assertNotIn("prompt_token_ids", plain)

    def test_cached_tokens(self):
        body = completion("cache me " * 40, max_tokens=1, cache_salt="one")
        first = ok(self, server.post("/v1/completions", body))["usage"]
        again = ok(self, server.post("/v1/completions", body))["usage"]
        other = ok(self, server.post("/v1/completions", {**body, "cache_salt": "two"}))["usage"]
        self.assertEqual(first["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertGreaterEqual(again["prompt_tokens_details"]["cached_tokens"], 64)
        self.assertEqual(other["prompt_tokens_details"]["cached_tokens"], 0)

    def test_cache_prompt(self):
        """false, as llama-benchy asks with --no-cache: nothing is taken from the cache, and nothing left in it."""
        body = completion("keep me out of it " * 30, max_tokens=1)

        def cached(**more):
            usage = ok(self, server.post("/v1/completions", {**body, **more}))["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual(cached(cache_prompt=False), 0)
        self.assertEqual(cached(cache_prompt=False, n=3), 0)
        self.assertEqual(cached(cache_prompt=True), 0)
        self.assertEqual(cached(cache_prompt=False), 0)
        self.assertGreaterEqual(cached(), 64)
        refused(self, server.post("/v1/completions", {**body, "cache_prompt": "no"}), 400, "cache_prompt")

    def test_texts_that_each_choice_keeps_are_short(self):
        """A stop string of 30 MB would be gigabytes of an automaton, for each of n choices."""
        ok(self, server.post("/v1/completions", completion(stop="é" * 256, cache_salt="é" * 256, max_tokens=1)))
        for field, value in (("stop", "é" * 257), ("stop", ["x", "y" * 1000]), ("cache_salt", "x" * 257)):
            self.assertIn("256", refused(self, server.post("/v1/completions", completion(**{field: value})), 400, field))

    def test_more_choices_than_may_ever_wait(self):
        message = refused(self, server.post("/v1/completions", completion(["hi"] * 128, n=128)), 400, "n")
        for number in ("128", "16384", "1040"):
            self.assertIn(number, message)


class Chat(unittest.TestCase):
    def content(self, messages, **more):
        body = {"model": NAME, "messages": messages, "temperature": 0, "max_tokens": 8, **more}
        return ok(self, server.post("/v1/chat/completions", body))["choices"][0]["message"]["content"]

    def test_parts_and_developer(self):
        plain = self.content([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one\ntwo"}])
        parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
        self.assertEqual(self.content([{"role": "developer", "content": "Be brief."},
                                       {"role": "user", "content": parts}]), plain)

    def test_c3_usage_is_the_rendered_prompt(self):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one\ntwo <|im_end|> 🌶"}]
        body = {"model": NAME, "messages": messages, "max_tokens": 1, "n": 2}
        usage = ok(self, server.post("/v1/chat/completions", body))["usage"]
        self.assertEqual(usage["prompt_tokens"], ok(self, server.post("/tokenize", {"messages": messages}))["count"])

    def test_an_answer_can_be_sent_back(self):
        message = ok(self, server.post("/v1/chat/completions", chat(max_tokens=4)))["choices"][0]["message"]
        message.update(tool_calls=None, function_call=None, audio=None, annotations=[])
        self.content([{"role": "user", "content": "hi"}, message, {"role": "user", "content": "and?"}])

    def test_what_messages_must_not_be(self):
        image = [{"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}]
        for messages in ([], "hi", [1], [{}], [{"role": "user"}], [{"role": "king", "content": "x"}],
                         [{"role": "user", "content": None}], [{"role": "user", "content": image}],
                         [{"role": "tool", "content": "x"}], [{"role": "user", "content": "x", "zzz": 1}],
                         [{"role": "assistant", "content": "x", "tool_calls": [{}]}]):
            refused(self, server.post("/v1/chat/completions", {"model": NAME, "messages": messages}), 400, "messages")

    def test_accepted_without_effect(self):
        plain = self.content([{"role": "user", "content": "hi"}])
        self.assertEqual(plain, self.content(
            [{"role": "user", "content": "hi"}], user="u", metadata={"a": "b"}, store=False, service_tier="auto",
            safety_identifier="s", prompt_cache_key="k", parallel_tool_calls=True, tools=[], tool_choice="none",
            response_format={"type": "text"}))

    def test_limits_of_tokens(self):
        for more in ({"max_tokens": 3}, {"max_completion_tokens": 3}, {"max_tokens": 9, "max_completion_tokens": 3}):
            body = {"model": NAME, "messages": [{"role": "user", "content": "hi"}], "ignore_eos": True, **more}
            self.assertEqual(ok(self, server.post("/v1/chat/completions", body))["usage"]["completion_tokens"], 3)

    def test_top_logprobs(self):
        body = chat(max_tokens=3, logprobs=True, top_logprobs=4)
        for entry in ok(self, server.post("/v1/chat/completions", body))["choices"][0]["logprobs"]["content"]:
            self.assertEqual(len(entry["top_logprobs"]), 4)
            self.assertEqual(bytes(entry["bytes"]).decode(errors="replace"), entry["token"])
            best = [t["logprob"] for t in entry["top_logprobs"]]
            self.assertEqual(best, sorted(best, reverse=True))
            self.assertEqual(entry["logprob"], best[0])  # greedy

    def test_template_arguments_that_nothing_reads(self):
        for field, value in (("chat_template_kwargs", {"enable_thinking": False}), ("enable_thinking", True),
                             ("reasoning_effort", "low"), ("chat_template_kwargs", {"messages": []})):
            refused(self, server.post("/v1/chat/completions", chat(max_tokens=1, **{field: value})), 400, field)


def deep(levels):
    return json.loads("[" * levels + "]" * levels)


class Fields(unittest.TestCase):
    """Every documented field times values that it must not have."""

    def test_i3_wrong_values(self):
        """CASES I3."""
        api = json.loads(server.get("/openapi.json")[2])
        valid = {"/v1/chat/completions": chat(max_tokens=1), "/v1/completions": completion(max_tokens=1),
                 "/tokenize": {"prompt": "x"}, "/detokenize": {"tokens": [1]}}
        count = 0
        for path, base in valid.items():
            schema = api["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
            self.assertFalse(schema["additionalProperties"])
            for field in schema["properties"]:
                for text in ('{"a":{}}', '[[]]', '"\\u0001wrong"', "true", "false", "-1e9", "1e400", "-1.5", "NaN",
                             "-Infinity", "[" * 70 + "]" * 70, "[]", "{}", "0", "99999999999999999999", '""', "null"):
                    if self.may_be(schema, field, text):
                        continue
                    body = {k: v for k, v in base.items() if k != field}
                    raw = json.dumps(body)[:-1] + (", " if body else "") + json.dumps(field) + ": " + text + "}"
                    status, got = server.post(path, raw)
                    expected = 404 if field == "model" and text.startswith('"') else 400
                    self.assertEqual(status, expected, (path, field, text, got))
                    self.assertEqual(got["error"]["param"], field, (path, field, text, got))
                    count += 1
        self.assertGreater(count, 600)

    def may_be(self, schema, field, text):
        """Whether the schema (of the few kinds that the server writes) allows the value."""
        return text not in ("NaN", "-Infinity", "1e400") and allows(schema["properties"][field], json.loads(text))

    def test_missing_and_unknown(self):
        for path, body, field in (("/v1/chat/completions", {"model": NAME}, "messages"),
                                  ("/v1/chat/completions", {"messages": []}, "messages"),
                                  ("/v1/completions", {"model": NAME}, "prompt"), ("/detokenize", {}, "tokens"),
                                  ("/tokenize", {}, "prompt"), ("/v1/completions", {"prompt": "x"}, "model")):
            refused(self, server.post(path, body), 400, field)
        for field in ("suffix", "best_of", "frobnicate", "images", "audio", "guided_json", "functions"):
            refused(self, server.post("/v1/completions", completion(**{field: None})), 400, field)
        for field, value in (("tools", [{}]), ("tool_choice", "auto"), ("response_format", {"type": "json_object"}),
                             ("modalities", ["text"]), ("frobnicate", 1)):
            refused(self, server.post("/v1/chat/completions", chat(**{field: value})), 400, field)

    def test_a_refusal_is_not_as_large_as_the_request(self):
        name = "k" * 300_000
        for text in (f'{{"{name}": 1}}', f'{{"{name}": x}}', f'{{"{name}": 1, "{name}": 1}}'):
            status, _, data = server.request("POST", "/v1/completions", text)
            self.assertEqual(status, 400)
            self.assertLess(len(data), 300)

    def test_fields_that_need_others(self):
        for field, body in (("stream_options", chat(stream_options={"include_usage": True})),
                            ("top_logprobs", chat(top_logprobs=2)),
                            ("prompt_logprobs", chat(prompt_logprobs=1, stream=True))):
            refused(self, server.post("/v1/chat/completions", body), 400, field)

    def test_a_model_of_another_name(self):
        refused(self, server.post("/v1/chat/completions", chat(model="gpt-4")), 404, "model", "model_not_found")
        self.assertEqual(server.get("/v1/models/gpt-4")[0], 404)
        for name in (NAME, f"%{ord(NAME[0]):02x}{NAME[1:]}"):
            self.assertEqual(json.loads(server.get("/v1/models/" + name)[2])["id"], NAME)

    def test_bodies_that_are_no_json(self):
        for text in ("", "{", "{:", "[]", "1", '"x"', '{"a":1}x', '{"model":"\xff"}', '{"model": "a", "model": "b"}',
                     "\0", '{"prompt": "\\ud800"}', '{"prompt": "\\ude00"}', '{"\\ude00": 1}', "[" * 100000):
            status, body = server.post("/v1/completions", text.encode("latin-1"))
            self.assertEqual(status, 400, text)
            self.assertEqual(set(body["error"]), {"message", "type", "param", "code"})

    def test_c7_bias_outside_the_vocabulary(self):
        """CASES C7."""
        for bias in ({"191222": -100}, {"AI": -100}, {"-1": 1}, {"1": 1e9}, {"1.5": 1}, {"": 1}, {"01": 1}, {"1": "x"}):
            refused(self, server.post("/v1/completions", completion(logit_bias=bias)), 400, "logit_bias")

    def test_c3_i5_prompts_at_the_context(self):
        """CASES C3, I5."""
        one = ok(self, server.post("/tokenize", {"prompt": " a"}))["tokens"]
        self.assertEqual(len(one), 1)
        for count, status, more in ((2047, 200, {"max_tokens": 1}), (2047, 200, {}), (2048, 400, {}),
                                    (2048, 200, {"max_tokens": 0}), (2049, 400, {"max_tokens": 1}),
                                    (20480, 400, {"max_tokens": 1})):
            body = completion(one * count, **more)
            got, answer = server.post("/v1/completions", body)
            self.assertEqual(got, status, (count, answer))
            if status == 400:
                message = answer["error"]["message"]
                self.assertIn(str(count), message)
                self.assertIn("2048", message)
                self.assertEqual(answer["error"]["code"], "context_length_exceeded")
        # What is far too long is told so without being read.
        text = "far too long " * 60_000
        for path, param, body in (("/v1/completions", "prompt", completion(text)),
                                  ("/v1/chat/completions", "messages", chat(text))):
            message = refused(self, server.post(path, body), 400, param, "context_length_exceeded")
            self.assertRegex(message, "780[0-9]{3} bytes and so 48[0-9]{2} tokens at least, and the context is 2048")
        # So long that no template may write it out; and so long that it may not even look at it.
        for count, least in ((6_000_000, 37037), (20_000_000, 123456)):
            message = refused(self, server.post("/v1/chat/completions", chat("a " * (count // 2))), 400, "messages",
                              "context_length_exceeded")
            self.assertIn(f"{count} bytes and so {least} tokens at least, and the context is 2048", message)
        ok(self, server.post("/v1/completions", completion(max_tokens=1)))
        self.assertEqual(server.metric("num_requests_waiting") + server.metric("num_requests_running"), 0)


def allows(schema, value):
    if "anyOf" in schema:
        return any(allows(s, value) for s in schema["anyOf"])
    if "const" in schema:
        return value == schema["const"] and type(value) is type(schema["const"])
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("number", "integer"):
        if not is_number or (kind == "integer" and value != int(value)):
            return False
        return schema.get("minimum", value) <= value <= schema["maximum"] and value > schema.get("exclusiveMinimum", -1e308)
    if kind == "string":
        return isinstance(value, str) and len(value) >= schema.get("minLength", 0)
    if kind == "array":
        return (isinstance(value, list) and schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1e9)
                and all(allows(schema.get("items", {}), v) for v in value))
    if kind == "object":
        known = schema.get("properties", {})
        more = schema.get("additionalProperties", {})
        return (isinstance(value, dict) and all(k in value for k in schema.get("required", []))
                and all(allows(known[k], v) if k in known else more is not False and allows(more, v)
                        for k, v in value.items())
                and ("propertyNames" not in schema or not value))
    return True


class Templates(unittest.TestCase):
    def test_b1_b5_a_template_that_refuses(self):
        """CASES B1, B5."""
        import tempfile
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write("{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
                       "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}"
                       "{{ reasoning_effort }}{% if enable_thinking %}T{% endif %}")
            file.flush()
            with Server("--ctx", "512", "--template", file.name) as other:
                turns = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
                body = {"model": NAME, "messages": turns, "max_tokens": 1}
                message = refused(self, other.post("/v1/chat/completions", body), 400, "messages", "template_failed")
                self.assertIn("roles must alternate", message)
                body["messages"] = turns[:1]
                ok(self, other.post("/v1/chat/completions", body))
                for more in ({"enable_thinking": True}, {"chat_template_kwargs": {"enable_thinking": True}}):
                    tokens = ok(self, other.post("/tokenize", {"messages": turns[:1], **more}))["tokens"]
                    self.assertEqual(ok(self, other.post("/detokenize", {"tokens": tokens}))["prompt"], "aT")
                tokens = ok(self, other.post("/tokenize", {"messages": turns[:1], "reasoning_effort": "low"}))["tokens"]
                self.assertEqual(ok(self, other.post("/detokenize", {"tokens": tokens}))["prompt"], "alow")
                both = {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False}}
                refused(self, other.post("/tokenize", {"messages": turns[:1], **both}), 400, "chat_template_kwargs")


    def test_a_template_that_does_not_end(self):
        """Its limits are the request's fault, told at once, and nobody else's."""
        import tempfile
        spin = "{% for a in range(99999) %}{% for b in range(99999) %}{{ a if messages[0].content == 'say' }}"
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write("{% if messages[0].content == 'deep' %}{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}{% endif %}"
                       "{% if messages[0].content == 'large' %}{{ 'x' * 10**12 }}{% endif %}"
                       "{% if messages[0].content != 'hi' %}" + spin + "{% endfor %}{% endfor %}{% endif %}hi")
            file.flush()
            with Server("--ctx", "512", "--template", file.name) as other:
                for content in ("spin", "say", "deep", "large"):
                    for path, body in (("/v1/chat/completions", chat(content, max_tokens=1)),
                                       ("/v1/chat/completions", chat(content, max_tokens=1, stream=True)),
                                       ("/tokenize", {"messages": chat(content)["messages"]})):
                        message = refused(self, other.post(path, body, timeout=10), 400, "messages", "template_failed")
                        self.assertIn("chat template, line 1: limit exceeded: it ", message)
                ok(self, other.post("/v1/chat/completions", chat("hi", max_tokens=1)))


class Together(unittest.TestCase):
    def test_many_at_once_answer_as_alone(self):
        prompts = [f"Item {i}:" for i in range(24)]
        alone = [ok(self, server.post("/v1/completions", completion(p, max_tokens=6)))["choices"][0]["text"]
                 for p in prompts]
        together = [None] * len(prompts)

        def ask(i):
            parts = stream("/v1/completions", completion(prompts[i], max_tokens=6))
            together[i] = "".join(c["text"] for chunk in parts for c in chunk["choices"])

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)
        self.assertEqual(server.get("/health")[0], 200)


if __name__ == "__main__":
    unittest.main()
