// Colours that meet as text and ground are at least 4.5 : 1 apart (WCAG 2.2 AA), borders of controls 3 : 1, in both
// themes.
import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {test} from "node:test";

const css = readFileSync(new URL("../../../web/assets/page.css", import.meta.url), "utf8");
const colours = Object.fromEntries(
    [...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map(([, name, ...pair]) => [name, pair]));

function luminance(colour) {
  const [r, g, b] = [1, 3, 5]
                        .map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255)
                        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

const kTexts = [
  ...["paper", "side", "raised", "said", "code-ground"].map((ground) => ["ink", ground]),
  ...["paper", "side", "raised", "said", "code-ground"].map((ground) => ["soft", ground]),
  ["accent", "paper"],
  ["accent", "side"],
  ["on-accent", "accent"],
  ["alarm", "alarm-ground"],
  ["alarm", "paper"],
  ...["comment", "string", "number", "keyword", "name"].map((kind) => [`code-${kind}`, "code-ground"]),
];
const kEdges = [["edge", "paper"], ["edge", "side"], ["edge", "raised"], ["accent", "paper"], ["accent", "raised"]];

test("the measure itself", () => {
  assert.equal(contrast("#000000", "#ffffff"), 21);
  assert.ok(contrast("#777777", "#ffffff") < 4.5);
});

for (const [pairs, least] of [[kTexts, 4.5], [kEdges, 3]]) {
  test(`at least ${least} : 1`, () => {
    for (const [text, ground] of pairs) {
      for (const theme of [0, 1]) {
        const measured = contrast(colours[text][theme], colours[ground][theme]);
        assert.ok(measured >= least, `${text} on ${ground}, ${["light", "dark"][theme]}: ${measured.toFixed(2)}`);
      }
    }
  });
}

test("no colour stands outside the list", () => {
  const rules = css.slice(css.indexOf("*, ::before"));
  assert.deepEqual(rules.match(/#[\da-f]{3,8}\b(?![^{]*\{)/gi) ?? [], []);
});
