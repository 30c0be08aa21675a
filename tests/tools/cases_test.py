#!/usr/bin/env python3
"""Every `CASES x` in the tree is a row of docs/cases.md, and every row has a test that names it."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENDINGS = {".cc", ".h", ".cu", ".cuh", ".py", ".md", ".mjs"}
MARK = re.compile(r"CASES ([A-K]\d+(?:(?:, | and )(?:CASES )?[A-K]\d+)*)")


def marks(*folders):
    """Case -> the files whose comments name it."""
    found = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in ENDINGS or path == ROOT / "docs/cases.md" or path.name == pathlib.Path(__file__).name:
                continue
            for match in MARK.finditer(path.read_text(errors="replace")):
                for case in re.findall(r"[A-K]\d+", match[1]):
                    found.setdefault(case, set()).add(str(path.relative_to(ROOT)))
    return found


class Cases(unittest.TestCase):
    def setUp(self):
        text = (ROOT / "docs/cases.md").read_text()
        self.rows = re.findall(r"^\| ([A-K]\d+) \|", text, re.MULTILINE)

    def test_rows_are_in_order_and_once(self):
        self.assertGreater(len(self.rows), 40)
        self.assertEqual(self.rows, sorted(set(self.rows), key=lambda case: (case[0], int(case[1:]))))

    def test_every_mark_has_its_row(self):
        unknown = {case: files for case, files in marks("src", "tests", "apps", "bench", "docs").items() if case not in self.rows}
        self.assertEqual(unknown, {})

    def test_every_row_has_a_test(self):
        tested = marks("tests")
        self.assertEqual([case for case in self.rows if case not in tested], [])


if __name__ == "__main__":
    unittest.main()
