#!/usr/bin/env python3
"""The page in headless Chromium, against a server that does what each test scripts. Screenshots go to build/page/.

Every test also fails on an uncaught exception, an error on the console, a violation of the content security policy, or a
request to another host."""

import os
import pathlib
import re
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import scripted_server
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

SCREENSHOTS = pathlib.Path(__file__).resolve().parents[2] / "build" / "page"
MARKDOWN = """## A heading

Some **bold** text with `code`, a [link](https://example.org/x) and a list:

1. one
   - inner
2. two

```python
def f(x):  # comment
    return "<b>" + str(x)
```

| a | b |
|---|--:|
| 1 | 2 |
"""
expect.set_options(timeout=15_000)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        # Chromium's own sandbox wants more rights than a container's root has.
        cls.browser = cls.playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=["--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])],
        )
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()

    def setUp(self):
        self.server = scripted_server.start()
        self.script = self.server.script
        self.context = self.browser.new_context(
            viewport={"width": 1280, "height": 860}, permissions=["clipboard-read", "clipboard-write"]
        )
        self.faults = []
        self.expected = []  # expressions of console errors that a test provokes
        self.context.on("page", self.watch)
        self.page = self.context.new_page()

    def tearDown(self):
        self.context.close()
        self.server.shutdown()
        self.server.server_close()
        unexpected = [fault for fault in self.faults if not any(re.search(each, fault) for each in self.expected)]
        self.assertEqual(unexpected, [])

    def watch(self, page):
        page.on(
            "console",
            lambda message: message.type in ("error", "warning")
            and self.faults.append(f"console: {message.text} {message.location.get('url')}"),
        )
        page.on("pageerror", lambda error: self.faults.append(f"exception: {error}"))
        page.on(
            "request",
            lambda request: request.url.startswith((self.server.address, "blob:"))
            or self.faults.append(f"request: {request.url}"),
        )

    def open(self, page=None, path="/", meets=True):
        page = page or self.page
        page.goto(self.server.address + path)
        page.wait_for_selector("body.ready")
        if meets:
            expect(page.locator("#welcome-model")).to_have_text("scripted-1b")

    def say(self, text, page=None):
        page = page or self.page
        page.locator("#question").fill(text)
        page.locator("#question").press("Enter")

    def answer(self, *pieces):
        self.script.answer = lambda request: list(pieces)

    def gated(self, before, after):
        """Answers that write `before`, then wait for the gate that this returns, then `after`."""
        gate = threading.Event()

        def answer(request):
            yield from before
            while not gate.wait(0.05):
                yield 0
            yield from after

        self.script.answer = answer
        self.addCleanup(gate.set)
        return gate

    @property
    def last(self):
        return self.page.locator(".message.assistant").last

    def done(self, page=None):
        expect((page or self.page).locator("#send")).to_be_visible()

    # Sending and streaming

    def test_an_answer_streams_and_shows_its_figures(self):
        gate = self.gated(["Hello **wor"], ["ld**.\n\nBye."])
        self.open()
        self.say("Hi\nthere")
        expect(self.last.locator(".prose")).to_have_text("Hello **wor")
        expect(self.page.locator("#stop")).to_be_visible()
        expect(self.last).to_have_attribute("aria-busy", "true")
        gate.set()
        expect(self.last.locator("strong")).to_have_text("world")
        self.done()
        expect(self.last).to_have_attribute("aria-busy", "false")
        expect(self.last.locator(".figures")).to_contain_text("17 tokens")
        expect(self.last.locator(".figures")).to_contain_text(re.compile(r"[\d.]+ tok/s"))
        expect(self.last.locator(".figures")).to_contain_text("31 in the prompt, 16 cached")
        expect(self.page.locator(".said")).to_have_text("Hi\nthere")
        self.assertEqual(
            self.script.requests,
            [
                {
                    "model": "scripted-1b",
                    "messages": [{"role": "user", "content": "Hi\nthere"}],
                    "stream": True,
                    "stream_options": {"include_usage": True},
                }
            ],
        )
        self.answer("Again.")
        self.say("More")
        expect(self.last.locator(".prose")).to_have_text("Again.")
        self.assertEqual(
            [m["content"] for m in self.script.requests[1]["messages"]],
            ["Hi\nthere", "Hello **world**.\n\nBye.", "More"],
        )

    def test_stop_cancels_at_the_server_and_keeps_what_came(self):
        for way in ("button", "Escape"):
            with self.subTest(way):
                cancelled = self.script.cancelled
                self.gated(["Part of it"], ["never"])
                self.open()
                self.say("Go on")
                expect(self.last.locator(".prose")).to_have_text("Part of it")
                self.page.locator("#stop").click() if way == "button" else self.page.keyboard.press("Escape")
                self.done()
                expect(self.last).to_contain_text("Stopped by you.")
                expect(self.last.locator(".prose")).to_have_text("Part of it")
                for _ in range(100):
                    if self.script.cancelled > cancelled:
                        break
                    time.sleep(0.05)
                self.assertEqual(self.script.cancelled, cancelled + 1)

    def test_reasoning_is_folded_and_not_sent_back(self):
        gate = self.gated([{"reasoning": "Let me *think*. "}, {"reasoning": "Yes."}], ["It is 4."])
        self.open()
        self.say("2+2?")
        expect(self.last.locator("summary")).to_have_text("Reasoning…")
        expect(self.last.locator(".reasoning .prose")).to_be_hidden()
        gate.set()
        expect(self.last.locator("summary")).to_contain_text("Reasoned for")
        self.last.locator("summary").click()
        expect(self.last.locator(".reasoning .prose")).to_have_text("Let me think. Yes.")
        self.done()
        self.say("Sure?")
        self.done()
        self.assertEqual(self.script.requests[1]["messages"][1], {"role": "assistant", "content": "It is 4."})

    def test_a_long_answer_changes_only_its_end(self):
        gate = self.gated(
            ["First paragraph.\n\nSecond.\n\nThird.\n\n"],
            [f"Word {i} of `many`.\n\n" if i % 40 == 0 else f"word {i} " for i in range(6000)],
        )
        self.open()
        self.say("Write long")
        expect(self.last.locator(".prose p").nth(2)).to_have_text("Third.")
        self.page.evaluate("document.querySelector('.assistant .prose p').kept = true")
        gate.set()
        self.done()
        expect(self.last.locator(".prose")).to_contain_text("word 5999")
        self.assertTrue(self.page.evaluate("document.querySelector('.assistant .prose p').kept"))
        self.assertEqual(
            self.page.evaluate(
                "[...document.querySelectorAll('.assistant .prose')].at(-1).textContent.match(/[Ww]ord \\d+/g).length"
            ),
            6000,
        )
        self.assertLess(
            self.page.evaluate(
                "(() => { const s = document.getElementById('scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight; })()"
            ),
            80,
        )

    def test_whoever_reads_above_stays_there(self):
        gate = self.gated(["Line.\n\n" * 80], ["More.\n\n" * 40])
        self.open()
        self.say("Write")
        expect(self.last.locator(".prose p")).to_have_count(80)
        self.page.evaluate("document.getElementById('scroll').scrollTop = 100")
        expect(self.page.locator("#latest")).to_be_visible()
        gate.set()
        expect(self.last.locator(".prose p")).to_have_count(120)
        self.done()
        self.assertEqual(self.page.evaluate("document.getElementById('scroll').scrollTop"), 100)
        self.page.locator("#latest").click()
        expect(self.page.locator("#latest")).to_be_hidden()

    def test_hostile_text_stays_text(self):
        self.answer(
            "<script>window.owned=1</script> <img src=x onerror=window.owned=1>\n\n[a](javascript:window.owned=1) ![b](https://evil.example/p.png) ",
            "[c](https://example.org/'\"onclick=window.owned=1)\n\n```html\n<img src=x onerror=window.owned=1>\n```\n\n<svg/onload=window.owned=1>\n\n",
            '```"><script>window.owned=1</script>\nx\n```\n',
        )
        self.open()
        self.say("<img src=x onerror=window.owned=1>")
        self.done()
        self.assertIsNone(self.page.evaluate("window.owned ?? null"))
        self.assertEqual(self.page.locator("#thread :is(img, script, iframe, object, embed)").count(), 0)
        hrefs = self.page.locator("#thread a").evaluate_all("links => links.map(a => [a.protocol, a.rel, a.target])")
        self.assertEqual(hrefs, [["https:", "noopener noreferrer nofollow", "_blank"]] * 2)
        expect(self.last).to_contain_text("<script>window.owned=1</script>")

    # Branches

    def test_regenerate_edit_and_return_to_branches(self):
        self.open()
        self.answer("First answer.")
        self.say("Question")
        self.done()
        self.answer("Second answer.")
        self.last.get_by_role("button", name="Regenerate").click()
        expect(self.last.locator(".prose")).to_have_text("Second answer.")
        self.done()
        expect(self.last.locator(".branches")).to_contain_text("2 of 2")
        self.assertEqual(self.script.requests[1]["messages"], [{"role": "user", "content": "Question"}])
        self.last.get_by_role("button", name="Earlier version").click()
        expect(self.last.locator(".prose")).to_have_text("First answer.")
        user = self.page.locator(".message.user")
        user.get_by_role("button", name="Edit").click()
        expect(user.locator("textarea")).to_be_focused()
        user.locator("textarea").fill("Changed question")
        self.answer("Third answer.")
        user.locator("textarea").press("Enter")
        expect(self.last.locator(".prose")).to_have_text("Third answer.")
        self.done()
        expect(self.page.locator(".said")).to_have_text("Changed question")
        self.page.reload()
        expect(self.last.locator(".prose")).to_have_text("Third answer.")
        self.page.locator(".message.user").get_by_role("button", name="Earlier version").click()
        expect(self.page.locator(".said")).to_have_text("Question")
        expect(self.last.locator(".prose")).to_have_text("First answer.")
        self.page.locator(".message.user").get_by_role("button", name="Edit").click()
        self.page.keyboard.press("Escape")
        expect(self.page.locator(".said")).to_have_text("Question")

    def test_a_message_that_is_changed_stays_in_view(self):
        self.page.set_viewport_size({"width": 375, "height": 720})
        self.answer("Some lines.\n\n" * 8)
        self.open()
        self.say("Hello")
        self.done()
        self.page.locator("[data-action=edit]").scroll_into_view_if_needed()
        self.page.locator("[data-action=edit]").click()
        for _ in range(12):
            self.page.keyboard.press("Shift+Enter")
        expect(self.page.locator(".edit textarea")).to_be_in_viewport(ratio=0.9)

    # What is kept

    def test_reload_keeps_conversations_settings_and_figures(self):
        self.answer(MARKDOWN)
        self.open()
        self.page.locator("#settings-open").click()
        self.page.locator("[name=system]").fill("Be brief.")
        self.page.locator("[name=temperature]").fill("0.3")
        self.page.get_by_role("button", name="Save").click()
        self.say("One")
        self.done()
        self.page.get_by_role("button", name="New conversation").click()
        self.say("Two")
        self.done()
        self.page.reload()
        expect(self.page.locator("#conversations a")).to_have_text(["Two", "One"])
        expect(self.page.locator(".said")).to_have_text("Two")
        self.page.locator("#conversations").get_by_text("One").click()
        expect(self.page.locator(".said")).to_have_text("One")
        expect(self.last.locator("table")).to_be_visible()
        expect(self.last.locator(".figures")).to_contain_text("17 tokens")
        self.page.go_back()
        expect(self.page.locator(".said")).to_have_text("Two")
        self.say("Three")
        self.done()
        self.assertEqual(self.script.requests[-1]["temperature"], 0.3)
        self.assertEqual(self.script.requests[-1]["messages"][0], {"role": "system", "content": "Be brief."})

    def test_an_answer_that_lost_its_page_is_kept_and_says_so(self):
        self.gated(["Half an ans"], [])
        self.open()
        self.say("Go")
        expect(self.last.locator(".prose")).to_have_text("Half an ans")
        time.sleep(1.5)
        self.page.close(run_before_unload=False)
        self.page = self.context.new_page()
        self.page.add_init_script("const now = Date.now; Date.now = () => now() + 60_000;")
        self.open(meets=False)
        self.page.locator("#conversations a").click()
        expect(self.last.locator(".prose")).to_have_text("Half an ans")
        expect(self.last).to_contain_text("closed while the answer was written")

    def test_two_tabs_see_each_other(self):
        self.open()
        other = self.context.new_page()
        self.open(other)
        self.answer("From the first tab.")
        self.say("Hi")
        self.done()
        other.locator("#conversations a").click()
        expect(other.locator(".assistant .prose")).to_have_text("From the first tab.")
        self.answer("From the second.")
        self.say("Back", other)
        self.done(other)
        expect(self.page.locator(".assistant .prose").last).to_have_text("From the second.")

    def test_what_is_being_written_survives(self):
        self.open()
        other = self.context.new_page()
        self.open(other)
        self.say("Hi")
        self.done()
        self.page.locator("#question").fill("half a thought")
        self.page.locator(".message.user").get_by_role("button", name="Edit").click()
        self.page.locator(".edit textarea").fill("half a change")
        other.locator("#conversations a").click()
        self.say("From the other tab", other)
        expect(self.page.locator(".said")).to_have_text("From the other tab")  # the first question is being changed
        expect(self.page.locator(".edit textarea")).to_have_value("half a change")
        expect(self.page.locator("#question")).to_have_value("half a thought")
        self.page.reload()
        expect(self.page.locator("#question")).to_have_value("half a thought")
        self.page.get_by_role("button", name="New conversation").click()
        expect(self.page.locator("#question")).to_have_value("")
        self.page.go_back()
        expect(self.page.locator("#question")).to_have_value("half a thought")

    def test_rename_delete_download(self):
        self.open()
        self.say("Hi")
        self.done()
        self.page.locator("#rename").click()
        self.page.locator("#ask input").fill("A better name")
        self.page.keyboard.press("Enter")
        expect(self.page.locator("#conversations a")).to_have_text("A better name")
        with self.page.expect_download() as download:
            self.page.locator("#download").click()
        self.assertEqual(download.value.suggested_filename, "A better name.md")
        self.assertEqual(
            pathlib.Path(download.value.path()).read_text(),
            "# A better name\n\n## You\n\nHi\n\n## scripted-1b\n\nHello there.\n",
        )
        self.page.locator("#delete").click()
        expect(self.page.locator("#ask-cancel")).to_be_focused()
        self.page.locator("#ask-yes").click()
        expect(self.page.locator("#conversations a")).to_have_count(0)
        self.page.reload()
        expect(self.page.locator("#conversations a")).to_have_count(0)
        self.assertEqual(
            self.page.evaluate(
                "new Promise(done => { const r = indexedDB.open('pagoda'); r.onsuccess = () => { "
                "r.result.transaction('messages').objectStore('messages').count().onsuccess = e => done(e.target.result); }; })"
            ),
            0,
        )

    def test_a_full_browser_says_that_nothing_is_kept(self):
        self.page.add_init_script(
            "IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); };"
        )
        self.open()
        self.say("Hi")
        expect(self.last.locator(".prose")).to_have_text("Hello there.")
        expect(self.page.locator(".notice")).to_contain_text("no room left")

    def test_a_browser_without_a_database_works_and_says_so(self):
        self.page.add_init_script(
            "IDBFactory.prototype.open = () => { throw new DOMException('no', 'SecurityError'); };"
        )
        self.open()
        expect(self.page.locator(".notice")).to_contain_text("keeps nothing")
        self.say("Hi")
        expect(self.last.locator(".prose")).to_have_text("Hello there.")

    # Faults

    def test_faults_are_shown_where_they_happened_and_tried_again(self):
        cases = [
            (
                [("refuse", 429, "Too many requests.", None, [("Retry-After", "7")])],
                "Not answered (429). Too many requests. Try again in 7 s.",
                "429",
            ),
            (
                [("refuse", 503, "The server is shutting down.")],
                "Not answered (503). The server is shutting down.",
                "503",
            ),
            (["Some", ("error", "The device was lost.")], "The device was lost.", None),
            (["Some", ("drop",)], "before the answer was whole", None),
        ]
        for pieces, text, console in cases:
            with self.subTest(text):
                if console:
                    self.expected.append(f"status of {console}")
                self.answer(*pieces)
                self.open()
                self.say("Hi")
                expect(self.last.locator(".fault")).to_contain_text(text)
                if pieces[0] == "Some":
                    expect(self.last.locator(".prose")).to_have_text("Some")
                self.done()
                self.answer("Now it works.")
                self.last.get_by_role("button", name="Try again").click()
                expect(self.last.locator(".prose")).to_have_text("Now it works.")
                # A part of an answer is a version to return to; nothing is none.
                expect(self.last.locator(".branches")).to_have_count(1 if pieces[0] == "Some" else 0)
                self.done()
                self.page.reload()
                expect(self.last.locator(".prose")).to_have_text("Now it works.")
                expect(self.last.locator(".branches")).to_have_count(1 if pieces[0] == "Some" else 0)

    def test_a_refused_setting_leads_to_it(self):
        self.expected.append("status of 400")
        self.answer(("refuse", 400, "top_k has to be at most 100", "top_k"))
        self.open()
        self.say("Hi")
        expect(self.last.locator(".fault")).to_contain_text("top_k has to be at most 100")
        self.page.screenshot(path=SCREENSHOTS / "fault.png")
        self.last.get_by_role("button", name="Open the settings").click()
        expect(self.page.locator("[name=top_k]")).to_be_focused()

    def test_no_server(self):
        self.expected += ["ERR_CONNECTION_REFUSED", "ERR_FAILED", "ERR_CONNECTION_RESET"]
        self.open()
        self.context.route(re.compile("/v1/"), lambda route: route.abort("connectionrefused"))
        self.say("Hi")
        expect(self.last.locator(".fault")).to_contain_text("The server did not answer.")
        self.page.reload()
        expect(self.page.locator(".notice")).to_contain_text("The server did not answer.")
        self.context.unroute_all()
        self.page.locator(".notice").get_by_role("button", name="Try again").click()
        expect(self.page.locator(".notice")).to_have_count(0)

    # Settings

    def test_settings_are_checked_and_sent(self):
        self.open()
        self.page.locator("#settings-open").click()
        values = {
            "temperature": "0.7",
            "top_p": "0.9",
            "top_k": "40",
            "min_p": "0.05",
            "repetition_penalty": "1.1",
            "presence_penalty": "0.5",
            "frequency_penalty": "-0.5",
            "max_tokens": "100",
            "seed": "42",
            "system": "S",
            "stop": "END\nSTOP",
        }
        for name, value in values.items():
            self.page.locator(f"[name={name}]").fill(value)
        self.page.locator("[name=thinking]").select_option("off")
        self.page.locator("[name=top_p]").fill("2")
        self.page.get_by_role("button", name="Save").click()
        expect(self.page.locator("[name=top_p]")).to_be_focused()
        expect(self.page.locator("#help-top_p")).to_have_text("It has to be above 0 and at most 1.")
        self.page.screenshot(path=SCREENSHOTS / "settings.png")
        self.page.locator("[name=top_p]").fill("0.9")
        self.page.get_by_role("button", name="Save").click()
        expect(self.page.locator("#settings-count")).to_have_text("12 set")
        self.say("Hi")
        self.done()
        self.assertEqual(
            self.script.requests[0],
            {
                "model": "scripted-1b",
                "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}],
                "temperature": 0.7,
                "top_p": 0.9,
                "top_k": 40,
                "min_p": 0.05,
                "repetition_penalty": 1.1,
                "presence_penalty": 0.5,
                "frequency_penalty": -0.5,
                "max_tokens": 100,
                "seed": 42,
                "stop": ["END", "STOP"],
                "chat_template_kwargs": {"enable_thinking": False},
                "stream": True,
                "stream_options": {"include_usage": True},
            },
        )

    # Keys

    def test_a_key_is_asked_for_and_kept_for_the_tab(self):
        self.expected.append("status of 401")
        self.script.key = "right"
        self.open(meets=False)
        expect(self.page.locator("#key")).to_be_visible()
        expect(self.page.locator("[name=key]")).to_be_focused()
        self.page.locator("[name=key]").fill("wrong")
        self.page.keyboard.press("Enter")
        expect(self.page.locator("#key-fault")).to_have_text("The server does not know this key.")
        self.page.screenshot(path=SCREENSHOTS / "key.png")
        self.page.locator("[name=key]").fill("right")
        self.page.keyboard.press("Enter")
        expect(self.page.locator("#key")).to_be_hidden()
        expect(self.page.locator("#welcome-model")).to_have_text("scripted-1b")
        self.say("Hi")
        expect(self.last.locator(".prose")).to_have_text("Hello there.")
        self.assertEqual(
            self.page.evaluate("[sessionStorage['pagoda.key'], localStorage['pagoda.key'] ?? null]"), ["right", None]
        )
        self.page.reload()
        expect(self.last.locator(".prose")).to_have_text("Hello there.")
        expect(self.page.locator("#key")).to_be_hidden()
        # Another tab of the same browser has to be told again; a remembered key need not be.
        other = self.context.new_page()
        self.open(other, meets=False)
        other.locator("[name=key]").fill("right")
        other.locator("[name=remember]").check()
        other.keyboard.press("Enter")
        expect(other.locator("#welcome-model")).to_have_text("scripted-1b")
        third = self.context.new_page()
        self.open(third)
        third.locator("#key-open").click()
        third.locator("#key-forget").click()
        expect(third.locator("#key")).to_be_visible()
        self.assertEqual(
            third.evaluate("[sessionStorage['pagoda.key'] ?? null, localStorage['pagoda.key'] ?? null]"), [None, None]
        )

    def test_a_key_that_expires_is_asked_for_and_the_question_answered(self):
        self.expected.append("status of 401")
        self.open()
        self.script.key = "new"
        self.say("Hi")
        self.page.locator("[name=key]").fill("new")
        self.page.keyboard.press("Enter")
        expect(self.last.locator(".prose")).to_have_text("Hello there.")
        expect(self.page.locator(".branches")).to_have_count(0)

    # For everyone

    def test_keyboard_only(self):
        self.answer("Use `x`:\n\n```c\nint x;\n```\n")
        self.open()
        page = self.page
        while not page.evaluate("document.activeElement.matches('.skip')"):
            page.keyboard.press("Shift+Tab")
        expect(page.locator(".skip")).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("#question")).to_be_focused()
        page.keyboard.type("Hi")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("you")
        page.keyboard.press("Enter")
        expect(page.locator(".said")).to_have_text("Hi\nyou")
        self.done()
        expect(page.locator("#question")).to_be_focused()
        address = page.url
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#question")).to_be_focused()
        self.assertEqual(page.url, address)
        names = []
        for _ in range(40):
            page.keyboard.press("Shift+Tab")
            names.append(
                page.evaluate(
                    "(e => e.getAttribute('aria-label') ?? (e.textContent.trim() || e.value))(document.activeElement)"
                )
            )
            ring = page.evaluate(
                "(s => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2)(getComputedStyle(document.activeElement.matches('[type=radio]') ? document.activeElement.nextElementSibling : document.activeElement))"
            )
            self.assertTrue(ring, f"no visible focus on {names[-1]}")
            if page.evaluate("document.activeElement.classList.contains('skip')"):
                break
        order = list(reversed(names))
        for earlier, later in [
            ("New conversation", "Hi"),
            ("Hi", "API key"),
            ("API key", "Settings"),
            ("Settings", "Live"),
            ("Live", "Edit"),
            ("Edit", "Copy"),
            ("Copy", "Regenerate"),
        ]:
            self.assertLess(order.index(earlier), len(order) - 1 - names.index(later), order)
        page.locator("#settings-open").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#settings")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#settings")).to_be_hidden()
        expect(page.locator("#settings-open")).to_be_focused()
        page.locator("#live-open").press("Enter")
        expect(page.locator("#live-close")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#live-open")).to_be_focused()

    def test_answers_are_announced_in_whole_parts(self):
        gate = self.gated(["One paragraph.\n\nAnother.\n\nA third"], [" one ends."])
        self.open()
        self.say("Hi")
        log = self.page.locator("#announcer")
        expect(log).to_have_attribute("aria-live", "polite")
        expect(log.locator("p")).to_have_text(["Sent.", "One paragraph."])
        gate.set()
        expect(log.locator("p")).to_have_text(
            ["Sent.", "One paragraph.", "Another.", "A third one ends.", "The answer is complete."]
        )

    def test_accessibility_rules(self):
        self.answer({"reasoning": "Thinking."}, MARKDOWN)
        self.open()
        self.say("Show me everything")
        self.done()
        click = lambda *ids: [self.page.locator(f"#{each}").click() for each in ids]
        states = {
            "live": lambda: (click("live-open"), expect(self.page.locator(".figure strong").first).to_be_visible()),
            "conversation": lambda: click("live-close"),
            "settings": lambda: click("settings-open"),
            "key": lambda: click("settings-cancel", "key-open"),
            "end": lambda: click("key-cancel"),
        }
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            for name, enter in states.items():
                with self.subTest(scheme=scheme, state=name):
                    enter()
                    found = Axe().run(
                        self.page,
                        options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
                    )
                    self.assertEqual(
                        [(v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found.response["violations"]], []
                    )

    def test_themes(self):
        self.open()
        ground = lambda page: page.evaluate("getComputedStyle(document.body).backgroundColor")
        self.page.emulate_media(color_scheme="light")
        light = ground(self.page)
        self.page.emulate_media(color_scheme="dark")
        dark = ground(self.page)
        self.assertNotEqual(light, dark)
        self.page.get_by_text("Light", exact=True).click()
        self.assertEqual(ground(self.page), light)
        self.page.reload()
        self.assertEqual(ground(self.page), light)
        self.page.get_by_text("Auto", exact=True).click()
        self.assertEqual(ground(self.page), dark)

    def test_phone(self):
        self.answer(MARKDOWN + "\n" + "long" * 60 + "\n\n| wide | table |\n|--|--|\n| " + "x " * 80 + "| y |\n")
        context = self.browser.new_context(viewport={"width": 375, "height": 740}, has_touch=True, is_mobile=True)
        self.addCleanup(context.close)
        context.on("page", self.watch)
        self.page = context.new_page()
        self.open()
        self.say("A question that is long enough to take two lines on a phone")
        self.done()
        fits = "document.documentElement.scrollWidth <= 375 && document.getElementById('scroll').scrollWidth <= document.getElementById('scroll').clientWidth"
        self.assertTrue(self.page.evaluate(fits))
        self.page.screenshot(path=SCREENSHOTS / "phone.png")
        small = self.page.evaluate(
            "[...document.querySelectorAll('button')].filter(b => b.checkVisibility({visibilityProperty: true})).map(b => [b.textContent.trim() || b.getAttribute('aria-label'), "
            "b.getBoundingClientRect()]).filter(([, r]) => Math.min(r.width, r.height) < 24).map(([n]) => n)"
        )
        self.assertEqual(small, [])
        expect(self.page.locator("#side")).to_be_hidden()
        self.page.locator("#side-open").click()
        expect(self.page.locator("#side")).to_be_visible()
        expect(self.page.locator("#side-close")).to_be_focused()
        time.sleep(0.3)
        self.page.screenshot(path=SCREENSHOTS / "phone_side.png")
        self.page.keyboard.press("Escape")
        expect(self.page.locator("#side-open")).to_be_focused()
        for opener in ("#live-open", "#settings-open"):
            self.page.locator(opener).click()
            self.assertTrue(self.page.evaluate(fits))
            self.page.keyboard.press("Escape")

    def test_live_view(self):
        self.script.running = 2
        self.answer({"reasoning": "Thinking."}, MARKDOWN)
        self.open()
        self.say("Show me everything")
        self.done()
        self.page.locator("#live-open").click()
        figures = self.page.locator(".figure")
        expect(figures.filter(has_text="Running")).to_contain_text("2 requests")
        expect(figures.filter(has_text="Waiting")).to_contain_text("3 requests")
        expect(figures.filter(has_text="KV cache")).to_contain_text("43.8 % in use")
        expect(figures.filter(has_text="Writing")).to_contain_text(re.compile(r"([5-9]\d|1\d\d) tokens a second"))
        expect(self.page.locator(".lines")).to_contain_text(re.compile(r"First token, p50 · p95\s*\d+ ms · \d+ ms"))
        expect(self.page.locator(".lines")).to_contain_text(re.compile(r"from the cache\s*(49|50|51) %"))
        self.assertEqual(
            self.page.locator(".lines").get_by_text("Refused").count(), 0
        )  # this server does not count them
        self.page.screenshot(path=SCREENSHOTS / "live.png")
        self.page.emulate_media(color_scheme="dark")
        self.page.locator("#live-close").click()
        self.page.screenshot(path=SCREENSHOTS / "dark.png")


if __name__ == "__main__":
    unittest.main(verbosity=2)
