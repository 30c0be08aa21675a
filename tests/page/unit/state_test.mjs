// The page's state without the page: branches, settings, figures, metrics.
import assert from "node:assert/strict";
import {test} from "node:test";

import {rateOf} from "../../../web/assets/answer.js";
import {growth, quantile, rate, Reading} from "../../../web/assets/metrics.js";
import {kNoSettings, kNumbers, numberFault, numberSet, requestFor} from "../../../web/assets/settings.js";
import {kRoot, titleOf, toMarkdown, Tree} from "../../../web/assets/tree.js";

const message = (id, parent, role, created) => ({id, parent, role, content: `text of ${id}`, created});
const ids = (messages) => messages.map(({id}) => id).join(" ");

test("an edited question and another answer are branches that can be returned to", () => {
  const chosen = {};
  const tree = new Tree([], chosen);
  for (const each
           of [message("q1", kRoot, "user", 1), message("a1", "q1", "assistant", 2), message("q2", "a1", "user", 3),
               message("a2", "q2", "assistant", 4)])
    tree.add(each);
  assert.equal(ids(tree.path()), "q1 a1 q2 a2");
  tree.add(message("a1b", "q1", "assistant", 5));
  assert.equal(ids(tree.path()), "q1 a1b");
  assert.equal(ids(tree.siblings(tree.get("a1"))), "a1 a1b");
  tree.choose(tree.get("a1"));
  assert.equal(ids(tree.path()), "q1 a1 q2 a2");
  tree.add(message("q1b", kRoot, "user", 6));
  assert.equal(ids(tree.path()), "q1b");
  assert.equal(ids(tree.before(tree.get("a2"))), "q1 a1 q2");
  // Kept and read again in any order, it is the same tree.
  const kept = ["a2", "q1b", "a1b", "q2", "q1", "a1"].map((id) => tree.get(id));
  const again = new Tree(kept, JSON.parse(JSON.stringify(chosen)));
  assert.equal(ids(again.path()), "q1b");
  again.choose(again.get("q1"));
  assert.equal(ids(again.path()), "q1 a1 q2 a2");
  assert.equal(ids(again.siblings(again.get("a1b"))), "a1 a1b");
  // What is removed is gone, and with it a choice of it.
  again.add(message("a1c", "q1", "assistant", 7));
  again.remove(again.get("a1c"));
  assert.equal(ids(again.path()), "q1 a1b");
  again.remove(again.get("a1b"));
  assert.equal(ids(again.path()), "q1 a1 q2 a2");
  again.remove(again.get("a2"));
  assert.equal(ids(again.path()), "q1 a1 q2");
  // A choice that is not there any more is no choice.
  assert.equal(ids(new Tree(kept, {[kRoot]: "gone"}).path()), "q1b");
});

test("titles", () => {
  assert.equal(titleOf("  One\nTwo"), "One");
  assert.equal(titleOf(" \n "), "Untitled");
  assert.equal(titleOf("😀".repeat(80)), `${"😀".repeat(59)}…`);
});

test("a conversation as text", () => {
  const text = toMarkdown(
      {title: "T", settings: {system: "Be brief."}},
      [{role: "user", content: "q"}, {role: "assistant", content: "a", model: "m"}]);
  assert.equal(text, "# T\n\n## System\n\nBe brief.\n\n## You\n\nq\n\n## m\n\na\n");
});

test("a request holds what was set, and nothing else", () => {
  const messages = [{role: "user", content: "q"}, {role: "assistant", content: ""}, {role: "user", content: "r"}];
  assert.deepEqual(
      requestFor("m", kNoSettings, messages),
      {model: "m", messages: [{role: "user", content: "q"}, {role: "user", content: "r"}]});
  const settings =
      {...kNoSettings, system: "S", temperature: " 0 ", top_k: "40", seed: "7", stop: "END\n\n two", thinking: "off"};
  assert.deepEqual(requestFor("m", settings, []), {
    model: "m",
    messages: [{role: "system", content: "S"}],
    temperature: 0,
    top_k: 40,
    seed: 7,
    stop: ["END", " two"],
    chat_template_kwargs: {enable_thinking: false}
  });
  assert.equal(numberSet(settings), 6);
});

test("numbers out of range are named", () => {
  const field = Object.fromEntries(kNumbers.map((each) => [each.name, each]));
  for (const [name, text] of [
           ["temperature", "0"], ["temperature", "2"], ["top_p", "1"], ["top_k", "0"], ["max_tokens", "1"],
           ["presence_penalty", "-2"], ["seed", ""]])
    assert.equal(numberFault(field[name], text), null, `${name} ${text}`);
  for (const [name, text] of [
           ["temperature", "-0.1"], ["temperature", "x"], ["top_p", "0"], ["top_p", "1.01"], ["top_k", "1.5"],
           ["max_tokens", "0"], ["repetition_penalty", "0"], ["seed", "-1"], ["seed", "1e300"], ["min_p", "Infinity"]])
    assert.notEqual(numberFault(field[name], text), null, `${name} ${text}`);
});

test("tokens a second", () => {
  assert.equal(rateOf({usage: {completion: 11}, timing: {writing: 500}}), 20);
  for (const nothing
           of [{}, {usage: {completion: 1}, timing: {writing: 500}}, {usage: {completion: 9}, timing: {writing: 0}},
               {usage: {completion: 9}, timing: {writing: null}}])
    assert.equal(rateOf(nothing), null);
});

const page = (tokens, buckets) =>
    `# TYPE t_total counter\nt_total{a="x\\"}y",b="1"} ${tokens}\nt_total{a="z"} 1e1\ng 0.5 1700000000000\n` +
    buckets.map((count, index) => `h_bucket{le="${["0.1", "0.2", "0.4", "+Inf"][index]}"} ${count}\n`).join("") +
    "h_sum 3\nh_count 3\n";

test("metrics: sums, rates, quantiles, a server that began anew", () => {
  const a = new Reading(page(100, [0, 0, 0, 0]), 1000);
  const b = new Reading(page(150, [10, 20, 20, 20]), 3000);
  assert.equal(a.total("t_total"), 110);
  assert.equal(a.total("g"), 0.5);
  assert.equal(a.total("nothing"), null);
  assert.equal(rate(a, b, "t_total"), 25);
  assert.equal(rate(a, a, "t_total"), null);
  assert.equal(growth(b, a, "t_total"), 110);
  assert.ok(Math.abs(quantile(a, b, "h", 0.5) - 0.1) < 1e-9);
  assert.ok(Math.abs(quantile(a, b, "h", 0.75) - 0.15) < 1e-9);
  assert.equal(quantile(a, a, "h", 0.5), null);
  assert.equal(quantile(a, new Reading(page(1, [0, 0, 0, 4]), 9), "h", 0.95), 0.4);
  assert.ok(Math.abs(quantile(b, new Reading(page(1, [2, 2, 2, 2]), 9), "h", 0.5) - 0.05) < 1e-9);
});
