#!/usr/bin/env python3
"""The layer check passes on this tree and fails, naming the place, on each kind of breach in a copy of it."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHECK = ROOT / "tools" / "check_layers.py"


def run(root):
    result = subprocess.run([sys.executable, CHECK, "--root", root], capture_output=True, text=True, check=False)
    return result.returncode, result.stdout


class LayerCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for top in ("src", "apps", "include"):
            shutil.copytree(ROOT / top, self.root / top)

    def tearDown(self):
        self.folder.cleanup()

    def breach(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((file.read_text() if file.exists() else "") + text)
        code, output = run(self.root)
        self.assertEqual(code, 1, output)
        return output

    def test_this_tree_passes(self):
        self.assertEqual(run(ROOT), (0, ""))

    def test_undeclared_edge(self):
        output = self.breach("src/kv/breach.h", '#include "text/tokenizer.h"\n')
        self.assertIn('src/kv/breach.h:1: kv may not include "text/tokenizer.h"', output)

    def test_facade_is_not_for_lower_rungs(self):
        self.assertIn("may not include", self.breach("src/engine/breach.h", '#include "pagoda/model.h"\n'))

    def test_programs_see_no_engine(self):
        self.assertIn("may not include", self.breach("apps/breach.cc", '#include "engine/engine.h"\n'))

    def test_public_headers_include_only_each_other(self):
        self.assertIn("may not include", self.breach("include/pagoda/breach.h", '#include "base/result.h"\n'))

    def test_cycle(self):
        self.assertIn("a cycle", self.breach("src/CMakeLists.txt", "\npagoda_rung(one two)\npagoda_rung(two one)\n"))

    def test_unknown_rung(self):
        self.assertIn("is no declared rung", self.breach("src/attic/old.h", "#pragma once\n"))

    def test_folder_names(self):
        self.assertIn("needs a name", self.breach("src/kv/utils/hash.h", "#pragma once\n"))


if __name__ == "__main__":
    unittest.main()
