// The Markdown reader: what models write, what hostile texts try, and that a streamed text ends as the whole one does.
import assert from "node:assert/strict";
import {test} from "node:test";

import {MarkdownStream, parseMarkdown} from "../../../web/assets/markdown.js";
import {parseInline, safeHref} from "../../../web/assets/markdown_inline.js";

/** A compact form to compare: type(children) with texts as they are. */
function show(node) {
  if (Array.isArray(node)) return node.map(show).join("");
  const {type} = node;
  switch (type) {
    case "text":
      return node.text;
    case "code":
      return node.language === undefined ? `code(${node.text})` :
                                           `fence:${node.language}(${node.text})${node.closed ? "" : "…"}`;
    case "math":
      return `math(${node.text})`;
    case "break":
      return "⏎";
    case "link":
      return `link:${node.href}(${show(node.children)})`;
    case "image":
      return `image:${node.href}(${node.alt})`;
    case "rule":
      return "rule()";
    case "heading":
      return `h${node.level}(${show(node.inline)})`;
    case "paragraph":
      return `p(${show(node.inline)})`;
    case "quote":
      return `quote(${show(node.blocks)})`;
    case "list": {
      const items = node.items.map(
          (item) => `${
              item.checked === null ? "" :
                  item.checked      ? "☑" :
                                      "☐"}[${show(item.blocks)}]`);
      return `${node.ordered ? `ol${node.start}` : "ul"}${node.tight ? "" : "!"}(${items.join("")})`;
    }
    case "table":
      return `table:${node.align.map((a) => a[0]).join("")}(${
              [node.head, ...node.rows].map((r) => r.map(show).join("|")).join("/")})`;
    default:
      return `${type}(${show(node.children)})`;
  }
}
const read = (text) => show(parseMarkdown(text));

const kCases = [
  ["plain", "p(plain)"],
  ["a *b* **c** ***d*** ~~e~~ `f`", "p(a emphasis(b) strong(c) emphasis(strong(d)) strike(e) code(f))"],
  ["snake_case_name and 2*3*4 _x_", "p(snake_case_name and 2emphasis(3)4 emphasis(x))"],
  ["**bold `*code*` _in_ it**", "p(strong(bold code(*code*) emphasis(in) it))"],
  ["a * b * c and ** d **", "p(a * b * c and ** d **)"],
  ["**unclosed", "p(**unclosed)"],
  ["\\*no\\* \\`x\\` C:\\dir", "p(*no* `x` C:\\dir)"],
  ["`` a`b `` and ` c", "p(code(a`b) and ` c)"],
  ["one  \ntwo\nthree<br>four", "p(one⏎two\nthree⏎four)"],
  [
    "[t *e*](https://x.org/a_(b) \"title\") <https://y.org>",
    "p(link:https://x.org/a_(b)(t emphasis(e)) link:https://y.org(https://y.org))"
  ],
  [
    "see https://x.org/a_b?c=1. (https://y.org/z)",
    "p(see link:https://x.org/a_b?c=1(https://x.org/a_b?c=1). (link:https://y.org/z(https://y.org/z)))"
  ],
  ["[x](javascript:alert(1)) ![pic](https://t.org/p.png)", "p(x (javascript:alert(1)) image:https://t.org/p.png(pic))"],
  ["[not a link] [a](b c", "p([not a link] [a](b c)"],
  ["<script>alert(1)</script>", "p(<script>alert(1)</script>)"],
  ["# One\n## Two ##\n###### Six\n####### seven\n#hash", "h1(One)h2(Two)h6(Six)p(####### seven\n#hash)"],
  ["- a\n- b\n  - c\n  - d\n- e", "ul([p(a)][p(b)ul([p(c)][p(d)])][p(e)])"],
  ["3. x\n4. y\n\n   more\n5) z", "ol3([p(x)][p(y)p(more)])ol5([p(z)])".replace("ol3(", "ol3!(")],
  ["1. **A**:\n  - sub\n2. B", "ol1([p(strong(A):)ul([p(sub)])][p(B)])"],
  ["- [x] done\n- [ ] open", "ul(☑[p(done)]☐[p(open)])"],
  ["- a\n\n- b", "ul!([p(a)][p(b)])"],
  ["text\n- item\n2. no list", "p(text)ul([p(item)])ol2([p(no list)])"],
  ["text\n2. stays", "p(text\n2. stays)"],
  ["> q1\n> q2\nlazy\n\nout", "quote(p(q1\nq2\nlazy))p(out)"],
  ["> > deep\n> - l", "quote(quote(p(deep))ul([p(l)]))"],
  ["```Python title=x\na = 1\n\n  b\n```\nafter", "fence:python(a = 1\n\n  b)p(after)"],
  ["````\n```\n````", "fence:(```)"],
  ["~~~js\nx", "fence:js(x)…"],
  ["- a\n  ```c\n  int x;\n\n  y\n  ```\n- b", "ul([p(a)fence:c(int x;\n\ny)][p(b)])"],
  ["a\n***\nb\n- - -", "p(a)rule()p(b)rule()"],
  ["| a | b |\n|:--|--:|\n| 1 | `x|y` |\n| 2 |\nafter", "table:lr(a|b/1|code(x|y)/2|)p(after)"],
  ["a|b\n-|-\n1\\|2|3", "table:ll(a|b/1|2|3)"],
  ["\\( a_1 * b_2 \\) and \\[x\\] $$y_*$$", "p(math(\\( a_1 * b_2 \\)) and math(\\[x\\]) math($$y_*$$))"],
  ["$$\na_1 + b\n$$\nit costs $5 and $6", "math($$\na_1 + b\n$$)p(it costs $5 and $6)"],
  ["\ta\r\n\r\nb", "p(a)p(b)"],
  ["", ""],
];

test("what models write", () => {
  for (const [text, expected] of kCases) assert.equal(read(text), expected, JSON.stringify(text));
});

test("only harmless addresses become links", () => {
  for (const bad
           of ["javascript:alert(1)", " JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "//x.org", "/path",
               "blob:x", "java\nscript:x", "http:", "https:// x.org", "http://", "file:///etc/passwd",
               "https://x.org/\u0000", "x"])
    assert.equal(safeHref(bad), null, bad);
  for (const good of ["https://x.org", "HTTP://x.org/ü?q=ö#f", "mailto:a@b.c"]) assert.equal(safeHref(good), good);
});

/** Numbers that are the same on each run. */
function random(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const kFragments = [
  "a",
  "word ",
  "\n",
  "\n\n",
  "  ",
  "    ",
  "- ",
  "* ",
  "1. ",
  "12) ",
  "> ",
  "# ",
  "```",
  "~~~",
  "`",
  "**",
  "*",
  "_",
  "~~",
  "|",
  "|-|",
  "---",
  "\n---\n",
  "[",
  "](",
  ")",
  "](https://x.org)",
  "![",
  "https://y.org/",
  "\\",
  "\\(",
  "\\)",
  "$$",
  "<br>",
  "<b>",
  "<",
  "é",
  "😀",
  "\t",
  "\r\n",
  ".",
  "[ ] ",
  "&amp;",
  "\u0000",
  "=",
  "```js\n"
];

function hostile(draw, pieces) {
  return Array.from({length: pieces}, () => kFragments[draw(kFragments.length)]).join("");
}

test("streamed in any pieces, a text gives the blocks of the whole, and settled blocks stay", () => {
  const draw = random(41);
  for (let round = 0; round < 1500; ++round) {
    const text =
        round < kCases.length ? kCases.map(([t]) => t).slice(0, round).join("\n\n") : hostile(draw, 1 + draw(60));
    const stream = new MarkdownStream();
    let kept = [];
    for (let at = 0; at < text.length;) {
      const size = 1 + draw(7);
      stream.append(text.slice(at, at + size));
      at += size;
      for (let i = 0; i < kept.length; ++i) assert.equal(stream.blocks[i], kept[i]);
      kept = stream.blocks.slice(0, stream.settled);
    }
    assert.deepEqual(stream.blocks, parseMarkdown(text), JSON.stringify(text));
  }
});

function visit(nodes, depth, see) {
  for (const node of nodes) {
    see(node, depth);
    for (const key of ["inline", "children", "blocks", "head"]) {
      if (Array.isArray(node[key])) visit(node[key].flat(), depth + 1, see);
    }
    for (const item of node.items ?? []) visit(item.blocks, depth + 1, see);
    for (const row of node.rows ?? []) visit(row.flat(), depth + 1, see);
  }
}

test("hostile texts: only known nodes, harmless addresses, bounded depth", () => {
  const draw = random(7);
  const types = new Set();
  for (let round = 0; round < 1500; ++round) {
    visit(parseMarkdown(hostile(draw, 80)), 0, (node, depth) => {
      types.add(node.type);
      assert.ok(depth < 600);
      if (node.href) assert.ok(safeHref(node.href));
    });
  }
  const known = [
    "text", "code", "math", "break", "link", "image", "rule", "heading", "paragraph", "quote", "list", "table",
    "emphasis", "strong", "strike"
  ];
  assert.deepEqual([...types].sort(), known.sort());
});

test("no text of 100,000 characters takes long", () => {
  const size = 100_000;
  const fill = (unit) => unit.repeat(Math.ceil(size / unit.length));
  const texts = [
    ...kFragments.map(fill), ...kFragments.map((unit) => unit + " ".repeat(size) + "x"),
    ...["*a **b ", "a** b* ", "*a _b* c_ ", "[a](", "[](https://x.org) ", "`a``", "> - ", "- > 1. ", "|a|b|\n|-|-|\n",
        "- a\n", "a\n", "a  \n", "# # ", "* * * x", "```\nx\n", "https://x.org)))", "https://x.org/((", "- a\n  ",
        "> a\n", "[[[", "]]]", "![![", "`a`|", "\\[", "***a"]
        .map(fill),
    `${"* ".repeat(size / 4)}x${" *".repeat(size / 4)}`, `${"*".repeat(size / 2)}x${"*".repeat(size / 2)}`,
    `${"*a **b ".repeat(size / 14)}${"** *".repeat(size / 8)}`, `|-|\n${" ".repeat(size)}x|-`, `# ${" ".repeat(size)}x`,
    `${Array.from({length: 600}, (_, i) => `${" ".repeat(2 * Math.min(i, 150))}- x`).join("\n")}`
  ];
  for (const text of texts) {
    const started = performance.now();
    const blocks = parseMarkdown(text);
    const took = performance.now() - started;
    assert.ok(took < 1500, `${JSON.stringify(text.slice(0, 30))} took ${took.toFixed(0)} ms`);
    visit(blocks, 0, (_, depth) => assert.ok(depth < 600));
  }
});

test("a line that grows within a long answer costs what its block costs", () => {
  const stream = new MarkdownStream();
  stream.append("A paragraph of some words, *emphasis* and `code`.\n\n".repeat(20_000));
  const started = performance.now();
  for (let i = 0; i < 2000; ++i) stream.append("word ");
  const took = performance.now() - started;
  assert.ok(took < 3000, `${took.toFixed(0)} ms`);
  assert.ok(stream.settled >= 19_998);
});

test("deep trees do not exist", () => {
  let deepest = 0;
  visit(
      [{children: parseInline(`${"**a *b ".repeat(5000)}${"* ** ".repeat(5000)}`)}], 0,
      (_, depth) => (deepest = Math.max(deepest, depth)));
  assert.ok(deepest < 200, String(deepest));
});
