#!/usr/bin/env python3
"""Writes tests/golden/tokenizer_json.jsonl: small tokenizer.json files, one for each element and flag, and what Hugging
Face's `tokenizers` makes of hard texts with them.

    pip install tokenizers==0.23.3
    tools/make_tokenizer_json_goldens.py tests/golden/tokenizer_json.jsonl

One object a line: "name", "tokenizer" (the file's text), "cases": lists of a text, its ids while marks are text, its ids
while marks count (null: the same), and what the latter say with marks (null: the text) and without (null: the same).
Lines without cases come first: their texts stand in the others for "@name".
"""
import json
import sys

from tokenizers import Tokenizer

TEXTS = [
    "", " ", "   ", "a", " a", "a ", "  Hello  World  ", "Hello, world! It's 2024-02-29.", "the cat's don't WE'LL", "x\ny\r\n\r\nz\t\tw", "\n", "a\n\nb ",
    "caf\u00e9 cafe\u0301 \u1e9b\u0323 \ufb01 \u212b \u2460\u00bd", "\u0130STANBUL \u00df \u03a3\u03c2", "\u4e2d\u6587 text\u65e5\u672c\u8a9e\u30ab\u30bf\u30ab\u30ca", "\uc548\ub155 \u1112\u1161\u11ab",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f600\U0001f44d\U0001f3fd", "12345 1,234.5 \u0661\u0662\u0663 a1b2", "---!!!...a,b;c", "\u201cquoted\u201d \u2014 dash\u2026",
    "\u00a0nbsp\u2003em\u3000wide\u2028", "\u200bzero\ufeff\u00ad", "\x00\x01\x1f\x7f\x85", "snake_case kebab-case CamelCase", "\u2581a\u2581 b", "<s>", "a<s>b</s> c", "  <s>  x  </s>\n", "<S>a</S>",
    "<s><s>", "<mask>,<mask>a b<mask>", "<tag>", "a<tag>b", " <tag> ", "\u00e9<TAG>\u00e9", "aaaaaaa", "abababab", "\u0301\u0301a", "\u0915\u094d\u0937\u093f", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22",
    "<0x0A>", "foo(bar) == baz[0]; // done", "\u2167\u00b2\u2083", "\ufffd\uffff", "don't 's 'S 'LL", "a b  c   d    e", "<unk>", "[UNK]", "the", "thethe the", "hug hugs pug", "\u00bfqu\u00e9?",
]

BYTES = {}
other = 0x100
for byte in range(256):
    printable = 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE
    BYTES[byte] = chr(byte if printable else other)
    other += 0 if printable else 1


def byte_text(text):
    return "".join(BYTES[b] for b in text.encode("utf-8"))


def byte_model(merges=(), marked=False, **options):
    """Ids 0 to 255 are the bytes; with `marked`, 256 to 511 are bytes that do not begin a piece."""
    vocab = {BYTES[b]: b for b in range(256)}
    if marked:
        vocab |= {"##" + BYTES[b]: 256 + b for b in range(256)}
        options["continuing_subword_prefix"] = "##"
    pairs = []
    for left, right in merges:
        left, right = byte_text(left), byte_text(right)
        vocab.setdefault(left + right, len(vocab))
        pairs.append([left, right])
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": pairs} | options


def character_model(characters, merges=(), extra=(), **options):
    vocab = {}
    for token in list(extra) + list(characters):
        vocab.setdefault(token, len(vocab))
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": [f"{a} {b}" for a, b in merges]} | options


def added(text, id, **flags):
    return {"id": id, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False} | flags


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
PLAIN_DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def tokenizer(model, normalizer=None, pre_tokenizer=None, decoder=None, added_tokens=(), post_processor=None):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(added_tokens), "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder, "model": model}


def normalizers():
    """The ids are the bytes of the normalised text."""
    kinds = {name: {"type": name} for name in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"]}
    kinds["strip"] = {"type": "Strip", "strip_left": True, "strip_right": True}
    kinds["strip_right"] = {"type": "Strip", "strip_left": False, "strip_right": True}
    kinds["replace"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    kinds["replace_expression"] = {"type": "Replace", "pattern": {"Regex": r"\s+|[.,](?=\w)"}, "content": "<>"}
    kinds["replace_special"] = {"type": "Replace", "pattern": {"String": r"\s"}, "content": "!"}
    kinds["prepend"] = {"type": "Prepend", "prepend": "\u2581"}
    kinds["llama"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, kinds["replace"]]}
    kinds["sequence"] = {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Sequence", "normalizers": []}, kinds["strip"]]}
    for clean in (False, True):
        for strip in (None, False, True):
            name = f"bert_{clean}_{strip}"
            kinds[name] = {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": clean, "strip_accents": strip, "lowercase": strip is not True}
    for name, kind in kinds.items():
        yield "normalizer_" + name, tokenizer(byte_model(), kind, BYTE_LEVEL, PLAIN_DECODER)
    yield "normalizer_bytes", tokenizer(byte_model(), {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "ByteLevel"}]}, None, PLAIN_DECODER)


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def pre_tokenizers():
    """An id of 256 or more is a byte that does not begin a piece."""
    kinds = {name: {"type": name} for name in ["Whitespace", "WhitespaceSplit", "BertPreTokenizer"]}
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        kinds["split_" + behavior] = split({"Regex": r"\s|[aeiou]"}, behavior)
        kinds["split_invert_" + behavior] = split({"Regex": r"\w+"}, behavior, True)
        kinds["split_literal_" + behavior] = split({"String": "a"}, behavior)
        kinds["punctuation_" + behavior] = {"type": "Punctuation", "behavior": behavior}
    kinds["digits"] = {"type": "Digits", "individual_digits": False}
    kinds["digits_single"] = {"type": "Digits", "individual_digits": True}
    kinds["delimiter"] = {"type": "CharDelimiterSplit", "delimiter": "-"}
    kinds["length"] = {"type": "FixedLength", "length": 3}
    for scheme in ["always", "first", "never"]:
        kinds["metaspace_" + scheme] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": scheme != "never"}
    kinds["words_then_metaspace"] = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, kinds["metaspace_always"]]}
    kinds["byte_level_prefix"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    # Falcon's: digits and threes of characters after the bytes were written.
    kinds["after_bytes"] = {"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Contiguous"}, BYTE_LEVEL | {"use_regex": True},
                                                                  {"type": "Digits", "individual_digits": False}, split({"Regex": "[0-9][0-9][0-9]"}, "Isolated")]}
    syntax = {"classes": r"[^(\s|[.,!?…])]+", "anchors": r"^a|z$|\bb\b|\Bl", "possessive": r"\p{L}++\s?+|\d{1,2}+", "intervals": r"a{,2}b|(?:t|h){2}?|[lo]{1,2}+|\s{2,}|l{2}",
              "cases": r"(?i:'S|'LL|we)|ſ", "hex": r"\h+|\x41|\u4e2d", "posix": r"[[:punct:]]|[[:digit:][:space:]]+", "look": r"(?<=a)b|c(?!a)|(?<!\s)d", "words": r"[\w-]+", "lines": r"(?!\R??.)|\R?\w", "options": r"(?i)HE|(?:l(?i)O|L|(?-i)w)o?|'(?i:T)", "dot": r"(?m:a.b)|x.y|\R",
              "negated": r"[^\S\r\n]+|\P{L}\P{N}|\W", "script": r"\p{Han}+|\p{Hiragana}|\p{Katakana}+|\p{Hangul}+", "empty": r"|a*", "tab": r"\t|\v|\f|\e|\a|\x00"}
    for name, pattern in syntax.items():
        kinds["syntax_" + name] = split({"Regex": pattern}, "Isolated")
    for name, kind in kinds.items():
        whole = kind if name.startswith(("byte_level", "after")) else {"type": "Sequence", "pretokenizers": [kind, BYTE_LEVEL]}
        yield "pre_" + name, tokenizer(byte_model(marked=True), None, whole, None)


ENGLISH = [("t", "h"), ("th", "e"), (" ", "the"), ("h", "u"), ("hu", "g"), ("a", "a"), ("aa", "aa"), ("a", "b"), ("ab", "ab"), ("c", "a"), ("ca", "t")]


def models():
    gpt2 = BYTE_LEVEL | {"use_regex": True}
    yield "bpe", tokenizer(byte_model(ENGLISH), None, gpt2, PLAIN_DECODER)
    whole = byte_model(ENGLISH, ignore_merges=True)
    whole["vocab"][byte_text(" Hello")] = len(whole["vocab"])
    yield "bpe_ignore_merges", tokenizer(whole, None, gpt2, PLAIN_DECODER)
    lacking = byte_model(ENGLISH)
    lacking["vocab"] = {k: v for k, v in lacking["vocab"].items() if k not in (BYTES[0], BYTES[0xC3], BYTES[ord("z")])} | {"never": 0, "ever": 0xC3, "more": ord("z")}
    yield "bpe_bytes_missing", tokenizer(lacking, None, gpt2, PLAIN_DECODER)
    letters = "abcdefghijklmnopqrstuvwxyz \u2581'"
    for fuse in (False, True):
        options = {"unk_token": "<unk>", "fuse_unk": fuse}
        yield f"bpe_unknown_{fuse}", tokenizer(character_model(letters, [("a", "a"), ("t", "h"), ("th", "e")], ["<unk>"], **options))
    fallback = [f"<0x{b:02X}>" for b in range(256)]
    marks = [added("<unk>", 0, special=True), added("<s>", 1, special=True), added("</s>", 2, special=True)]
    llama_decoder = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    llama_normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    llama = character_model(letters + "HW\u00e9", [("t", "h"), ("th", "e"), ("\u2581", "the"), ("\u2581", "\u2581"), ("a", "a")], ["<unk>", "<s>", "</s>"] + fallback,
                            unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    yield "llama", tokenizer(llama, llama_normalizer, None, llama_decoder, marks, template)
    gemma_decoder = {"type": "Sequence", "decoders": llama_decoder["decoders"][:3]}
    some = character_model(letters, [("t", "h")], ["<unk>", "<s>", "</s>"] + fallback[:0xA0], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    yield "gemma_some_bytes", tokenizer(some, llama_normalizer["normalizers"][1], split({"String": " "}, "MergedWithPrevious"), gemma_decoder, marks)
    words = character_model("abcdehilnorstuw", [("t", "##h")], ["<unk>"] + ["##" + c for c in "abcdehilnorstuw"] + ["s</w>", "##s</w>", "##e</w>", "th", "the</w>"],
                            unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>")
    words["vocab"]["th"] = words["vocab"]["th"]
    words["merges"] = ["t ##h", "th ##e</w>"]
    yield "bpe_prefix_suffix", tokenizer(words, {"type": "Lowercase"}, {"type": "Whitespace"})
    pieces = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], ["\u2581", -3.0], ["\u2581the", -2.5], ["the", -3.5], ["h", -6.0], ["e", -5.5], ["t", -5.25], ["a", -4.0], ["aa", -6.5], ["aaa", -9.75], ["b", -5.0],
              ["ab", -7.25], ["\u2581a", -4.25], ["s", -4.5], ["hugs", -9.0], ["hug", -8.0], ["u", -7.0], ["g", -7.5], ["\u4e2d", -9.0]]
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    yield "unigram", tokenizer({"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False}, None, metaspace, metaspace, marks)
    costly = [["<unk>", 0.0], ["c", -1.0], ["a", -1.0], ["f", 8.0], ["f\u00e9", -14.0]]  # one unknown character costs 10 more than the worst
    yield "unigram_penalty", tokenizer({"type": "Unigram", "unk_id": 0, "vocab": costly, "byte_fallback": False})
    first = metaspace | {"prepend_scheme": "first", "split": False}
    yield "unigram_bytes", tokenizer({"type": "Unigram", "unk_id": 0, "vocab": pieces + [[t, -20.0] for t in fallback], "byte_fallback": True}, None, first, gemma_decoder, marks)
    parts = {t: i for i, t in enumerate(["[UNK]", "hello", "world", "##s", "it", "##it", "'", "t", "the", "##e", "h", "##u", "##g", "##gs", ",", "!", "2024", "-", "02", "a", "##a", "##aa", "cat", "\u4e2d", "\u6587"])}
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    piece = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 6, "vocab": parts}
    for cleanup in (False, True):
        yield f"word_piece_{cleanup}", tokenizer(piece, bert, {"type": "BertPreTokenizer"}, {"type": "WordPiece", "prefix": "##", "cleanup": cleanup}, [added("[UNK]", 0, special=True)])
    yield "word_level", tokenizer({"type": "WordLevel", "vocab": parts, "unk_token": "[UNK]"}, {"type": "Lowercase"}, {"type": "Whitespace"})


def added_tokens():
    flags = ["single_word", "lstrip", "rstrip", "normalized", "special"]
    for bits in range(32):
        chosen = {flag: bool(bits >> i & 1) for i, flag in enumerate(flags)}
        tokens = [added("<tag>", 256, **chosen), added("<s>", 257, special=True), added("a b", 258), added("hug", 259, **(chosen | {"special": False})), added(" ", 260, normalized=True)][: 4 + bits % 2]
        for normalizer in [None, {"type": "Lowercase"}][: 1 + (bits >> 3 & 1)]:
            name = "_".join(k for k, v in chosen.items() if v) + ("_lower" if normalizer else "")
            model = byte_model()
            yield f"added_{name}", tokenizer(model, normalizer, BYTE_LEVEL, PLAIN_DECODER, tokens)
    tokens = [added("<tag>", 256, normalized=True), added("<s>", 257, normalized=True)]
    yield "added_prepended", tokenizer(byte_model(), {"type": "Prepend", "prepend": "\u2581"}, BYTE_LEVEL, PLAIN_DECODER, tokens)


def decoders():
    model = character_model("abcdeh \u2581.!'", extra=["<unk>", "##a", "##b"] + [f"<0x{b:02X}>" for b in range(256)], byte_fallback=True)
    strip = {"type": "Strip", "content": "a", "start": 1, "stop": 0}
    kinds = {"none": None, "strip": strip, "strip_right": strip | {"start": 0, "stop": 1}, "fuse": {"type": "Fuse"}, "replace_expression": {"type": "Replace", "pattern": {"Regex": "[ab]|\u2581"}, "content": "<\u00e9>"},
             "metaspace_never": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": True},
             "metaspace": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
             "sequence": {"type": "Sequence", "decoders": [strip, {"type": "Replace", "pattern": {"String": "b"}, "content": "bb"}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                           {"type": "Strip", "content": " ", "start": 3, "stop": 0}]}}
    for name, kind in kinds.items():
        yield "decoder_" + name, tokenizer(model, None, None, kind, [added("<s>", len(model["vocab"]), special=True)])


def texts_for(name):
    """Added tokens need texts that hold them, and the other groups need no marks."""
    near = ("<", "hug", "a b", "  a ")
    if name.startswith("added"):
        return [t for t in TEXTS if any(part in t for part in near)] + ["", "\u4e2d\u6587 text"]
    if name.endswith(("Removed", "Isolated", "Previous", "Next", "Contiguous")):
        return TEXTS[5:14] + ["---!!!...a,b;c", "snake_case kebab-case CamelCase", "aaaaaaa"]
    if name == "unigram_bytes":  # the library takes the text "<0x0A>" for a byte, so that it does not come back
        return [t for t in TEXTS if t != "<0x0A>"]
    return TEXTS if name.startswith(("bpe", "llama", "gemma", "unigram", "word", "decoder")) else [t for t in TEXTS if "<" not in t]


def cases(name, text):
    data = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
    library = Tokenizer.from_str(data)
    rows = []
    for t in texts_for(name):
        library.encode_special_tokens = True
        plain = library.encode(t, add_special_tokens=False).ids
        library.encode_special_tokens = False
        marked = library.encode(t, add_special_tokens=False).ids
        said, skipped = (library.decode(marked, skip_special_tokens=skip) for skip in (False, True))
        rows.append([t, plain, None if marked == plain else marked, None if said == t else said, None if skipped == said else skipped])
    return data, rows


def write_line(out, **line):
    out.write(json.dumps(line, ensure_ascii=True, separators=(",", ":")) + "\n")


def main():
    shared = {name: json.dumps(model["vocab"], ensure_ascii=False, separators=(",", ":")) for name, model in
              (("@bytes", byte_model()), ("@marked", byte_model(marked=True)))}
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for name, text in shared.items():
            write_line(out, name=name, tokenizer=text)
        for group in (normalizers, pre_tokenizers, models, added_tokens, decoders):
            for name, text in group():
                data, rows = cases(name, text)
                for shared_name, shared_text in shared.items():
                    data = data.replace(shared_text, f'"{shared_name}"')
                write_line(out, name=name, tokenizer=data, cases=rows)


if __name__ == "__main__":
    main()
