#!/usr/bin/env python3
"""The page's files as `pagoda serve` brings them, and what deploy/ and the page read of /metrics. Needs no browser; the
program and model come from the environment, as for tests/server."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "server"))
from serving import PROGRAM, Server

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
KEY = "a key of this test"


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = cls.enterClassContext(Server("--ctx", "256", "--api-key", KEY))

    def test_files_are_those_of_the_tree(self):
        for file in [*(ROOT / "web" / "assets").iterdir(), ROOT / "web" / "index.html"]:
            path = "/" if file.name == "index.html" else f"/assets/{file.name}"
            with self.subTest(path):
                status, headers, body = self.served.get(path)
                self.assertEqual((status, body), (200, file.read_bytes()))
                self.assertTrue(headers["content-type"].startswith(TYPES[file.suffix]), headers["content-type"])
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
                self.assertEqual(self.served.get(path, headers={"If-None-Match": headers["etag"]})[0], 304)
        for path in ("/assets/", "/assets/..%2findex.html", "/web/index.html", "/assets/nothing.js", "/package.json"):
            self.assertEqual(self.served.get(path)[0], 401, path)

    def test_every_metric_that_is_read_is_exported(self):
        self.served.get("/health")  # responses are counted from the first one on
        status, _, text = self.served.get("/metrics", headers={"Authorization": f"Bearer {KEY}"})
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

    def test_the_unit_starts_again_after_a_device_was_lost(self):
        text = (ROOT / "deploy" / "pagoda.service").read_text()
        never = re.search(r"^RestartPreventExitStatus=(.*)$", text, re.M)[1].split()
        codes = {"--nonsense": "2", "nothing.gguf": "3"}
        for argument, code in codes.items():
            done = subprocess.run([PROGRAM, "serve", argument, "--port", "0"], capture_output=True, timeout=60)
            self.assertEqual(str(done.returncode), code)
        self.assertEqual(never, list(codes.values()))  # 4 is a device's

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not here")
    def test_systemd_takes_the_unit(self):
        text = (ROOT / "deploy" / "pagoda.service").read_text()
        program = pathlib.Path(PROGRAM).resolve()
        for more, complaint in (("", ""), ("Nonsense=1\n", "Nonsense")):
            with tempfile.TemporaryDirectory() as folder:
                unit = pathlib.Path(folder, "pagoda.service")
                unit.write_text(text.replace("/usr/local/bin/pagoda", str(program)) + more)
                done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
            found = [line for line in done.stderr.splitlines() if "pagoda.service" in line]
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([complaint in line for line in found], [True] if complaint else [], done.stderr)

    def test_every_line_of_the_example_configuration_is_taken(self):
        text = re.sub(r"^# (?=[a-z-]+ = )(?!tls-)", "", (ROOT / "deploy" / "serve.toml").read_text(), flags=re.M)
        self.assertEqual(len(re.findall(r"^[a-z-]+ = ", text, re.M)), 7)
        for more, code, sentence in (("", 3, "nothing.gguf"), ("max-runing = 1\n", 2, "max-runing")):
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(text + more)
                file.flush()
                command = [PROGRAM, "serve", "nothing.gguf", "--config", file.name, "--port", "0"]
                done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(sentence, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
