"""The rows of tools/bench_gpu.py over tiny models on the CPU: lines are kept once, what fails or hangs leaves the others."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("PAGODA_PROGRAM", ROOT / "build/release/bin/pagoda")).parent
sys.path += [str(ROOT / "tools"), str(ROOT / "tests" / "server")]
import bench_gpu  # noqa: E402
from made_up_test import write_model  # noqa: E402


class BenchGpu(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        (self.path / "configs").mkdir()
        tiny = pathlib.Path(write_model(self.folder.name)).read_text()
        for name in ("Qwen3-4B", "Llama-3.2-1B", "Llama-3.1-8B"):
            (self.path / "configs" / f"{name}.json").write_text(tiny)
        self.rows = dict(bench_gpu.ROWS)
        bench_gpu.SAMPLES = 1

    def tearDown(self):
        bench_gpu.ROWS.clear()
        bench_gpu.ROWS.update(self.rows)
        self.folder.cleanup()

    def run_rows(self, *arguments):
        command = ["bench_gpu.py", "--device", "cpu", "--bin", str(PROGRAMS), "--configs", str(self.path / "configs"), "--keep",
                   str(self.path / "keep"), "--cache", str(self.path / "cache"), "--tokenizer", self.folder.name, "--commit",
                   "c0ffee", "--steps", "2", "--depth", "24", *arguments]
        before, sys.argv = sys.argv, command
        try:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                status = bench_gpu.main()
        finally:
            sys.argv = before
        return status, out.getvalue()

    def lines(self, name):
        path = self.path / "keep" / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def test_figures_are_kept_once(self):
        status, out = self.run_rows("decode-4b-bf16", "prefill-4b-bf16")
        self.assertEqual(status, 0, out)
        kept = self.lines("h200_models")
        self.assertEqual([(line["row"], line["test"], line["batch"], line["depth"]) for line in kept],
                         [("decode-4b-bf16", "decode", batch, 24) for batch in (1, 8, 32, 64)]
                         + [("prefill-4b-bf16", "prefill", 1, 0)])
        self.assertEqual({(line["commit"], line["head"]) for line in kept}, {("c0ffee", "bf16")})
        self.assertIn("(wanted ≤ 2.5", out)
        self.assertEqual(list((self.path / "keep").glob("*.log")), [])
        status, out = self.run_rows("decode-4b-*16")
        self.assertEqual((status, self.lines("h200_models")), (0, kept))
        self.assertIn("kept already", out)
        self.run_rows("--again", "prefill-4b-bf16")
        self.assertEqual(len(self.lines("h200_models")), len(kept) + 1)
        self.run_rows("--commit", "beef", "prefill-4b-bf16")
        self.assertEqual(self.lines("h200_models")[-1]["commit"], "beef")

    def test_a_row_that_fails_or_hangs_leaves_the_others(self):
        bench_gpu.ROWS["hangs"] = bench_gpu.Row(
            0.5, lambda run: ("h200_models", bench_gpu.objects(run.call([sys.executable, "-c", "import time; time.sleep(60)"]))))
        bench_gpu.ROWS["fails"] = bench_gpu.Row(60, bench_gpu.model, "Qwen3-4B", "q4_x", bench_gpu.decode(1))
        status, out = self.run_rows("hangs", "decode-8b-affine8_g64", "fails")
        self.assertEqual(status, 1)
        self.assertRegex(out, r"hangs +FAILED: it ran over its limit")
        self.assertRegex(out, r"fails +FAILED: exit 2: .*the format must be one of")
        self.assertEqual([(line["row"], line["format"], line["head"]) for line in self.lines("h200_models")],
                         [("decode-8b-affine8_g64", "affine8_g64", "bf16")])
        self.assertEqual(sorted(path.name for path in (self.path / "keep").glob("*.log")),
                         ["fails.log", "hangs.log"])
        with self.assertRaises(SystemExit):
            self.run_rows("decode-9b")

    def test_loading_and_serving(self):
        bench_gpu.ROWS["serve"] = bench_gpu.Row(60, bench_gpu.serve, "Qwen3-4B", "bf16", [(3, 20, 7)], vocabulary=256,
                                                wanted={3: bench_gpu.at_least(1e9, "output_tok_s")})
        status, out = self.run_rows("start-4b", "serve")
        self.assertEqual(status, 0, out)
        self.assertRegex(out, r"serve .*MISSED")
        (served,) = self.lines("h200_serve")
        self.assertEqual((served["ok"], served["streams"], served["tokens"], served["row"]), (3, 3, 7, "serve"))
        (started,) = self.lines("h200_models")
        self.assertEqual(len(started["wall_s"]), bench_gpu.SAMPLES)

    def test_a_checker_that_says_nothing_is_no_pass(self):
        run = argparse.Namespace(bin=self.path, keep=self.path, cache=self.path)
        passed = "[  PASSED  ] 3 tests.\n"
        for said, good in (("", False), ("ERROR SUMMARY: 0 errors\n", True), ("ERROR SUMMARY: 2 errors\n", False),
                           ("ERROR SUMMARY: 10 errors\n", False)):
            run.call = lambda command, said=said, **more: passed + said
            if good:
                self.assertEqual(bench_gpu.gpu_tests(run, "gpu_parity", (), ("tool",))[1], [{"tests": 3}])
            else:
                with self.assertRaises(bench_gpu.Failed):
                    bench_gpu.gpu_tests(run, "gpu_parity", (), ("tool",))
        run.call = lambda command, **more: "[  PASSED  ] 0 tests.\n"
        with self.assertRaises(bench_gpu.Failed):
            bench_gpu.gpu_tests(run, "gpu_parity")


if __name__ == "__main__":
    unittest.main()
