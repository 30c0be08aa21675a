"""Makes what the chat-template tests compare with, out of the reference renderer (template_oracle.py).

  make_template_goldens.py cases    fills in the `out:` and `error:` lines of tests/golden/templates/*.txt: a case is
                                    an `in:` line (\\n, \\r, \\t, \\\\ and \\xHH escaped); add one and run this
  make_template_goldens.py models   renders each template of models/templates/ (fetch_llama_cpp_files.sh) with
                                    each conversation of conversations.json into models.tsv: template, conversation,
                                    out, error or limit, then length in bytes and FNV-1a 64, or the words
"""
import json
import pathlib
import sys

from template_oracle import render

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/templates"


def unescape(text):
    out = bytearray()
    data = text.encode()
    i = 0
    while i < len(data):
        if data[i : i + 1] != b"\\":
            out.append(data[i])
            i += 1
            continue
        letter = data[i + 1 : i + 2]
        if letter == b"x":
            out.append(int(data[i + 2 : i + 4], 16))
            i += 4
        else:
            out += {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\"}[letter]
            i += 2
    return out.decode()


def escape(text):
    out = []
    for char in text:
        if char in "\n\r\t\\":
            out.append({"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}[char])
        elif char < " " or char in "\x7f\x85\u2028\u2029\ufeff":
            out.append("".join(f"\\x{byte:02x}" for byte in char.encode()))
        else:
            out.append(char)
    text = "".join(out)
    return text[:-1] + "\\x20" if text.endswith(" ") else text


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def make_cases():
    context = json.loads((GOLDEN / "context.json").read_text())
    for path in sorted(GOLDEN.glob("*.txt")):
        lines = []
        for line in path.read_text().splitlines():
            if line.startswith(("out:", "error:")):
                continue
            lines.append(line)
            if line.startswith("in:"):
                kind, text = render(unescape(line[4:]), context)
                lines.append(f"{kind}: {escape(text)}".rstrip())
        path.write_text("\n".join(lines) + "\n")


def make_models():
    conversations = json.loads((GOLDEN / "conversations.json").read_text())
    rows = []
    for path in sorted((ROOT / "models/templates").glob("*.jinja")):
        template = path.read_bytes().decode()
        for conversation in conversations:
            kind, text = render(template, conversation)
            data = text.encode()
            value = f"{len(data)} {fnv1a(data):016x}" if kind == "out" else escape(text)
            rows.append(f"{path.name}\t{conversation['name']}\t{kind}\t{value}")
    (GOLDEN / "models.tsv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    {"cases": make_cases, "models": make_models}[sys.argv[1]]()
