"""The newest line of a unit is kept, a failure outlives a pass of the same run, and other lines are refused."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu_receipt.py"


def line(key, unit, kind, verdict):
    return "\t".join([key * 64, "sm_90", unit, "X=1", kind, verdict]) + "\n"


class GpuReceipt(unittest.TestCase):
    def merge(self, golden, *receipts):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, text in enumerate([golden, *receipts]):
                paths.append(pathlib.Path(folder) / str(number))
                paths[-1].write_text(text)
            run = subprocess.run([sys.executable, TOOL, *paths], capture_output=True, text=True, check=False)
            return run.returncode, paths[0].read_text()

    def test_newest_lines(self):
        before = "# head\n" + line("a", "x.cu", "parity", "failed") + line("b", "y.cu", "parity", "passed")
        code, text = self.merge(before, line("c", "x.cu", "parity", "passed") + line("c", "x.cu", "models", "passed"))
        self.assertEqual(code, 0)
        self.assertEqual(text, "# head\n" + line("c", "x.cu", "models", "passed") + line("c", "x.cu", "parity", "passed")
                         + line("b", "y.cu", "parity", "passed"))

    def test_a_failure_stays(self):
        for verdicts in (("failed", "passed"), ("passed", "failed")):
            code, text = self.merge("# head\n", *(line("a", "x.cu", "parity", verdict) for verdict in verdicts))
            self.assertEqual((code, text), (0, "# head\n" + line("a", "x.cu", "parity", "failed")))

    def test_refusals(self):
        self.assertNotEqual(self.merge("# head\n", "abc\n")[0], 0)
        self.assertNotEqual(self.merge("# head\n", line("a", "x.cu", "parity", "perhaps"))[0], 0)
        two = line("a", "x.cu", "parity", "passed"), line("b", "x.cu", "parity", "passed")
        self.assertNotEqual(self.merge("# head\n", *two)[0], 0)


if __name__ == "__main__":
    unittest.main()
