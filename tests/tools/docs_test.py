#!/usr/bin/env python3
"""What the documents name is there: files of links and of code spans, targets of make, and each decision's number once."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("apps", "bench", "cmake", "configs", "deploy", "docs", "examples", "include", "src", "tests", "tools", "web")


def tracked():
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    return done.stdout.splitlines()


def documents():
    return [ROOT / name for name in tracked() if name.endswith(".md") and (ROOT / name).exists()]


def prose(document):
    """Without the blocks of code."""
    return re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S)


def code_spans(text):
    return re.findall(r"(?<!`)`([^`]+)`(?!`)", text)


def is_there(name):
    """A file or folder of ours, from the root or from src/ as includes are written; * and <x> stand for anything."""
    pattern = re.sub(r"<[^>]*>|\{[^}]*\}|…", "*", name).rstrip("/")
    return any(next(base.glob(pattern), None) is not None for base in (ROOT, ROOT / "src", ROOT / "include"))


class Documents(unittest.TestCase):
    def test_there_is_something_to_look_at(self):
        self.assertGreater(len(documents()), 30)

    def test_links_lead_somewhere(self):
        for document in documents():
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(document)):
                if "://" in target:
                    continue
                with self.subTest(document=document.name, link=target):
                    self.assertTrue((document.parent / target).exists())

    def test_files_that_are_named_exist(self):
        rungs = "|".join(folder.name for folder in (ROOT / "src").iterdir() if folder.is_dir())
        path = re.compile(rf"^(?:(?:{'|'.join(FOLDERS)})/[\w./*<>{{}}…-]+|(?:{rungs})/[\w./*<>{{}}…-]+\.(?:h|cc|cu|cuh))$")
        for document in documents():
            if "decisions" in document.parts:  # of their day
                continue
            for span in code_spans(prose(document)):
                if path.match(span):
                    with self.subTest(document=document.name, path=span):
                        self.assertTrue(is_there(span))

    def test_targets_of_make_exist(self):
        targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))
        for document in documents():
            for span in code_spans(document.read_text()):
                made = re.match(r"make ([a-z][a-z-]*)$", span)
                if made:
                    with self.subTest(document=document.name, target=span):
                        self.assertIn(made[1], targets)

    def test_a_decision_has_a_number_of_its_own(self):
        numbers = [path.name[:4] for path in (ROOT / "docs/decisions").glob("*.md")]
        self.assertEqual(sorted(numbers), sorted(set(numbers)))
        known = {int(number) for number in numbers}
        for name in tracked():
            path = ROOT / name
            if path.suffix not in (".md", ".h", ".cc", ".cu", ".cuh", ".py") or not path.exists() or "decisions" in name:
                continue
            for number in re.findall(r"\bdecision (\d+)\b", path.read_text(errors="replace")):
                with self.subTest(file=name, decision=number):
                    self.assertIn(int(number), known)


if __name__ == "__main__":
    unittest.main()
