#!/usr/bin/env python3
"""The page as `pagoda serve` brings it, with a real model; and what deploy/ and the page read of /metrics.

usage: served_test.py PAGODA MODEL   (Chromium as in page_test.py; screenshots to build/page/)"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest
import urllib.request

from playwright.sync_api import expect, sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "build" / "page"
PROGRAM, MODEL = sys.argv[1:3] if len(sys.argv) > 2 else (None, None)
KEY = "a key of this test"
expect.set_options(timeout=60_000)


class Served:
    """A server process on a free port; its address as `.url`."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", MODEL, "--port", "0", "--ctx", "2048", *flags],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PAGODA_API_KEY": ""},
        )
        for line in self.process.stderr:
            if match := re.search(r"(http://\S+) serves", line):
                self.url = match[1]
                return
        raise AssertionError(f"no server: exit code {self.process.wait()}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        _, rest = self.process.communicate(timeout=60)
        return self.process.returncode, rest

    def get(self, path, key=None, headers=()):
        request = urllib.request.Request(
            self.url + path, headers={**dict(headers), **({"Authorization": f"Bearer {key}"} if key else {})}
        )
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, dict(response.headers), response.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()


class ServedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served("--api-key", KEY)
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
            args=["--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])],
        )
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        code, log = cls.served.stop()
        assert code == 0, log
        assert KEY not in log and "seven small" not in log, "the log holds a key or a prompt"

    def test_files_are_those_of_the_tree(self):
        for file in [*(ROOT / "web" / "assets").iterdir(), ROOT / "web" / "index.html"]:
            path = "/" if file.name == "index.html" else f"/assets/{file.name}"
            with self.subTest(path):
                status, headers, body = self.served.get(path)
                headers = {name.lower(): value for name, value in headers.items()}
                self.assertEqual((status, body), (200, file.read_bytes()))
                self.assertIn(
                    {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}[
                        file.suffix
                    ],
                    headers["content-type"],
                )
                self.assertEqual(headers["x-content-type-options"], "nosniff")
                policy = dict(
                    part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";")
                )
                self.assertEqual(
                    (policy["default-src"], policy["script-src"], policy["style-src"], policy["frame-ancestors"]),
                    ("'none'", "'self'", "'self'", "'none'"),
                )
                self.assertEqual(
                    (policy["img-src"], policy["require-trusted-types-for"], policy["trusted-types"]),
                    ("'self'", "'script'", "'none'"),
                )
                self.assertEqual(self.served.get(path, headers={"If-None-Match": headers["etag"]}.items())[0], 304)
        for path in ("/assets/", "/assets/..%2findex.html", "/web/index.html", "/assets/nothing.js", "/package.json"):
            self.assertEqual(self.served.get(path)[0], 401, path)

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

    def test_every_metric_that_is_read_is_exported(self):
        self.served.get("/health")  # responses are counted from the first one on
        status, _, text = self.served.get("/metrics", KEY)
        self.assertEqual(status, 200)
        exported = set(re.findall(r"^(pagoda_\w+)", text.decode(), re.M))
        for file in ("deploy/grafana_dashboard.json", "deploy/prometheus_alerts.yml", "web/assets/live.js"):
            read = set(re.findall(r"\bpagoda_\w+", (ROOT / file).read_text()))
            self.assertGreater(len(read), 5, file)
            missing = {name for name in read if name not in exported and f"{name}_bucket" not in exported}
            self.assertEqual(missing, set(), file)
        labels = set(re.findall(r'(\w+)="', text.decode()))
        dashboard = json.loads((ROOT / "deploy/grafana_dashboard.json").read_text())
        expressions = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", []))
        read = set(re.findall(r"\{(\w+)=~", expressions)) | set(re.findall(r"by \((\w+)\)", expressions))
        self.assertIn("model_name", read)
        self.assertEqual(read - labels, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
