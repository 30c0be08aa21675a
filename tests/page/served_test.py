#!/usr/bin/env python3
"""The page as `pagoda serve` brings it, in Chromium, with a real model. Program and model come from the environment, as for
tests/server; screenshots go to build/page/."""

import os
import pathlib
import re
import sys
import unittest

from playwright.sync_api import expect, sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "server"))
from serving import Server

SCREENSHOTS = ROOT / "build" / "page"
KEY = "a key of this test"
expect.set_options(timeout=60_000)


class ServedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = cls.enterClassContext(Server("--ctx", "2048", "--api-key", KEY))
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = cls.playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=["--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])],
        )
        cls.addClassCleanup(cls.browser.close)
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def test_the_page_talks_to_a_model(self):
        context = self.browser.new_context(viewport={"width": 1280, "height": 860})
        self.addCleanup(context.close)
        page = context.new_page()
        faults = []
        page.on(
            "console",
            lambda message: message.type in ("error", "warning")
            and "status of 401" not in message.text
            and faults.append(message.text),
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(self.served.url)
        page.locator("[name=key]").fill(KEY)
        page.keyboard.press("Enter")
        expect(page.locator("#welcome-model")).to_contain_text(re.compile("SmolLM2", re.I))
        page.locator("#settings-open").click()
        for name, value in {
            "temperature": "0",
            "max_tokens": "48",
            "system": "You answer in one short sentence.",
            "seed": "7",
            "top_k": "40",
            "top_p": "0.9",
            "min_p": "0.01",
            "repetition_penalty": "1.1",
            "presence_penalty": "0.1",
            "frequency_penalty": "0.1",
            "stop": "nothing like this",
        }.items():
            page.locator(f"[name={name}]").fill(value)
        page.get_by_role("button", name="Save").click()
        page.locator("#question").fill("Name seven small animals.")
        page.keyboard.press("Enter")
        answer = page.locator(".message.assistant").last
        expect(answer.locator(".figures")).to_contain_text(re.compile(r"\d+ tokens.*tok/s.*in the prompt"))
        first = answer.locator(".prose").inner_text()
        self.assertGreater(len(first), 5)
        page.screenshot(path=SCREENSHOTS / "served.png")
        # The same seed and temperature: the same answer; its prompt comes from the cache.
        answer.get_by_role("button", name="Regenerate").click()
        expect(page.locator(".branches")).to_contain_text("2 of 2")
        expect(answer.locator(".figures")).to_contain_text("cached")
        self.assertEqual(answer.locator(".prose").inner_text(), first)
        # A long answer is stopped; the engine is idle again at once.
        page.locator("#settings-open").click()
        page.locator("[name=max_tokens]").fill("1500")
        page.get_by_role("button", name="Save").click()
        page.locator("#question").fill("Write a very long story about a lighthouse.")
        page.keyboard.press("Enter")
        expect(answer.locator(".prose")).to_contain_text(re.compile(r"\w+ \w+ \w+"))
        page.keyboard.press("Escape")
        expect(answer).to_contain_text("Stopped by you.")
        page.locator("#live-open").click()
        expect(page.locator(".figure").filter(has_text="Running")).to_contain_text("0 requests")
        expect(page.locator(".figure")).to_have_count(5)
        expect(page.locator(".lines > div")).to_have_count(7)
        page.reload()
        expect(page.locator(".message.assistant")).to_have_count(2)
        self.assertEqual(faults, [])
        log = self.served.log()
        self.assertNotIn(KEY, log)
        self.assertNotIn("seven small", log)


if __name__ == "__main__":
    unittest.main(verbosity=2)
