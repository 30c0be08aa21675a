// The scanner of code: keeps every character, knows the parts of common languages, and takes no long time.
import assert from "node:assert/strict";
import {test} from "node:test";

import {highlight} from "../../../web/assets/highlight.js";

const kinds = (text, language) =>
    highlight(text, language).filter(([kind]) => kind).map(([kind, piece]) => `${kind}:${piece}`).join(" ");

test("parts of common languages", () => {
  assert.equal(
      kinds("def f(x):  # why\n    return \"a#b\" + 0x1F", "python"),
      "keyword:def name:f comment:# why keyword:return string:\"a#b\" number:0x1F");
  assert.equal(kinds("s = \"\"\"two\nlines\"\"\" + f'{x}'", "py"), "string:\"\"\"two\nlines\"\"\" string:f'{x}'");
  assert.equal(
      kinds("#include <x>\nint main() { /* a\nb */ return 'c'; } // end", "cpp"),
      "comment:#include keyword:int name:main comment:/* a\nb */ keyword:return string:'c' comment:// end");
  assert.equal(kinds("const s = `a ${b}\n`; // x", "ts"), "keyword:const string:`a ${b}\n` comment:// x");
  assert.equal(
      kinds("fn f<'a>(s: &'a str) -> u32 { 1_000 }", "rust"), "keyword:fn keyword:str keyword:u32 number:1_000");
  assert.equal(
      kinds("SELECT count(*) FROM t -- all\nwhere x = 'y'", "sql"),
      "keyword:SELECT keyword:count keyword:FROM comment:-- all keyword:where string:'y'");
  assert.equal(
      kinds("if [ $# -gt 1 ]; then echo \"$1\"; fi # end", "bash"),
      "keyword:if number:1 keyword:then keyword:echo string:\"$1\" keyword:fi comment:# end");
  assert.equal(
      kinds("<a href=\"x\">t</a><!-- c -->", "html"), "name:a name:href string:\"x\" name:a comment:<!-- c -->");
  assert.equal(kinds("{\"a\": [1, true]}", "json"), "string:\"a\" number:1 keyword:true");
  assert.deepEqual(highlight("if x then y", "klingon"), [[null, "if x then y"]]);
});

test("what is unfinished stays within its line or its end", () => {
  assert.equal(kinds("x = \"open\ny = 1", "python"), "string:\"open number:1");
  assert.equal(kinds("/* open\nint", "c"), "comment:/* open\nint");
});

test("every character stays, in every language, soon", () => {
  const languages = [
    "c", "java", "js", "go", "rust", "swift", "php", "python", "ruby", "sh", "toml", "json", "sql", "lua", "haskell",
    "html", "css"
  ];
  const units = [
    "\"", "'",  "`", "\\", "/*",   "*/",   "//",  "#", "--", "<!--", "{-", "\"\"\"", "a",
    "0",  "0.", " ", "\n", "\"\\", "R\"(", "<a ", "-", "é😀", "'a",   "$",  "a.b=",   "1e"
  ];
  for (const language of languages) {
    for (const unit of [...units, units.join(""), [...units].reverse().join(" ")]) {
      const text = unit.repeat(Math.floor(30_000 / unit.length));
      const started = performance.now();
      assert.equal(highlight(text, language).map(([, piece]) => piece).join(""), text);
      const took = performance.now() - started;
      assert.ok(took < 500, `${language} ${JSON.stringify(unit)}: ${took.toFixed(0)} ms`);
    }
  }
});
