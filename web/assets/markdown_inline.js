// Markdown within a line: emphasis, code, links, mathematics. Text becomes a tree of plain objects; nothing here makes
// HTML. Emphasis follows CommonMark 0.31 ("delimiter runs"). Every pass is linear in the text, since a model's text is
// a stranger's. Not supported on purpose: raw HTML (it stays text) and images (they become links: nothing is fetched).

const kPunctuation = /[\p{P}\p{S}]/u;
const kSpace = /\s/u;
const kOrdinary = /[^\\$`*_~[\]!<hH\n]+/y;

// Together these bound how deep the tree can get, whatever the text.
const kDeepestBrackets = 32;
const kOpenRuns = 32;
const kLongestRun = 6;

/** The address if following it is harmless, else null. */
export function safeHref(text) {
  const href = text.trim();
  if (!/^(https?:\/\/|mailto:)[^\s\p{Cc}]+$/iu.test(href)) return null;
  return URL.canParse(href) ? href : null;
}

/** Where each run of backticks of a length stands, so that looking for a closing run takes no second scan. */
class Backticks {
  #runs = new Map();

  constructor(text) {
    for (const match of text.matchAll(/`+/g)) {
      const length = match[0].length;
      if (!this.#runs.has(length)) this.#runs.set(length, {at: [], next: 0});
      this.#runs.get(length).at.push(match.index);
    }
  }

  /** The first run of this length at or after `from`, or -1. `from` never decreases between calls. */
  find(length, from) {
    const runs = this.#runs.get(length);
    if (!runs) return -1;
    while (runs.next < runs.at.length && runs.at[runs.next] < from) ++runs.next;
    return runs.next < runs.at.length ? runs.at[runs.next] : -1;
  }
}

/** Finds `end` from `from` on, remembering a failure, so that many openers without a closer stay cheap. */
class Closers {
  #none = new Set();

  constructor(text) { this.text = text; }

  find(end, from) {
    if (this.#none.has(end)) return -1;
    const at = this.text.indexOf(end, from);
    if (at < 0) this.#none.add(end);
    return at;
  }
}

/** `(address "title")` at `at`: {href, end}, or null. */
function linkTarget(text, at) {
  const match =
      /^\(\s*(?:<([^<>\n]{0,2000})>|([^\s()<>]{0,2000}(?:\([^\s()]{0,200}\)[^\s()]{0,2000}){0,4}))(?:\s+(?:"[^"]{0,500}"|'[^']{0,500}'))?\s*\)/
          .exec(text.slice(at, at + 5000));
  return match ? {href: match[1] ?? match[2], end: at + match[0].length} : null;
}

/** The bare address that starts at `at`, without the punctuation that ends the sentence around it. */
function bareAddress(text, at) {
  const address = /^https?:\/\/[^\s<>"`\p{Cc}]{1,2000}/iu.exec(text.slice(at, at + 2010))?.[0] ?? "";
  let unopened = address.split(")").length - address.split("(").length;
  let end = address.length;
  for (; end > 0; --end) {
    const last = address[end - 1];
    if (last === ")" && unopened > 0)
      --unopened;
    else if (!".,;:!?'*_~]".includes(last))
      break;
  }
  return address.slice(0, end);
}

function plainText(nodes) {
  return nodes.map((node) => node.text ?? node.alt ?? plainText(node.children ?? [])).join("");
}

/** Opens or closes emphasis? By what stands before and after the run. */
function flanks(text, start, end) {
  const before = start > 0 ? text[start - 1] : " ";
  const after = end < text.length ? text[end] : " ";
  const left = !kSpace.test(after) && (!kPunctuation.test(after) || kSpace.test(before) || kPunctuation.test(before));
  const right = !kSpace.test(before) && (!kPunctuation.test(before) || kSpace.test(after) || kPunctuation.test(after));
  if (text[start] !== "_") return {opens: left, closes: right};
  return {opens: left && (!right || kPunctuation.test(before)), closes: right && (!left || kPunctuation.test(after))};
}

/** Pairs the delimiter runs among `pieces` and returns the tree. Runs that pair with nothing are text. */
function pairEmphasis(pieces) {
  const open = [];  // indices into `out` of runs that may still open
  const out = [];
  const asText = (node) => (node.type === "run" ? {type: "text", text: node.mark.repeat(node.count)} : node);
  const pairs = (opener, run) => {
    if (opener.mark !== run.mark) return false;
    if (run.mark === "~") return opener.count === run.count;
    const both = opener.closes || run.opens;
    return !(both && (opener.length + run.length) % 3 === 0 && (opener.length % 3 !== 0 || run.length % 3 !== 0));
  };
  for (const piece of pieces) {
    if (piece.type !== "run") {
      out.push(piece);
      continue;
    }
    const run = {...piece};
    while (run.closes && run.count > 0) {
      let at = open.length - 1;
      while (at >= 0 && !pairs(out[open[at]], run)) --at;
      if (at < 0) break;
      const opener = out[open[at]];
      const strength = run.mark === "~" ? run.count : Math.min(2, opener.count, run.count);
      const children = out.splice(open[at] + 1).map(asText);
      open.length = at + 1;
      opener.count -= strength;
      run.count -= strength;
      if (opener.count === 0) {
        out.pop();
        open.pop();
      }
      out.push({type: run.mark === "~" ? "strike" : strength === 2 ? "strong" : "emphasis", children});
    }
    if (run.count === 0) continue;
    const waits = run.opens && open.length < kOpenRuns;
    if (waits) open.push(out.length);
    out.push(waits ? run : asText(run));
  }
  return out.map(asText);
}

/** Neighbouring texts become one. */
function joinTexts(nodes) {
  const out = [];
  for (const node of nodes) {
    const last = out.at(-1);
    if (node.type === "text" && last?.type === "text")
      out[out.length - 1] = {type: "text", text: last.text + node.text};
    else
      out.push(node.children ? {...node, children: joinTexts(node.children)} : node);
  }
  return out;
}

/** The tree of a paragraph's text. */
export function parseInline(text) {
  const backticks = new Backticks(text);
  const closers = new Closers(text);
  const brackets = [];  // {at: index into `pieces` of the text "[", image}
  let pieces = [];
  let plain = "";
  let at = 0;

  const flush = () => {
    if (plain) pieces.push({type: "text", text: plain});
    plain = "";
  };
  const push = (node, end) => {
    flush();
    pieces.push(node);
    at = end;
  };
  const math = (open, close, from) => {
    const end = closers.find(close, from);
    if (end < 0) return false;
    push({type: "math", text: text.slice(from - open.length, end + close.length)}, end + close.length);
    return true;
  };
  const closeBracket = () => {
    const bracket = brackets.pop();
    const target = bracket && text[at + 1] === "(" ? linkTarget(text, at + 1) : null;
    if (!target) return false;
    flush();
    const children = joinTexts(pairEmphasis(pieces.splice(bracket.at + 1)));
    pieces.pop();
    const href = safeHref(target.href);
    const label = plainText(children);
    if (bracket.image)
      pieces.push({type: "image", alt: label, href});
    else if (href)
      pieces.push({type: "link", href, children});
    else
      pieces = pieces.concat(children, {type: "text", text: ` (${target.href})`});
    if (!bracket.image) brackets.length = 0;  // links do not nest
    at = target.end;
    return true;
  };

  while (at < text.length) {
    kOrdinary.lastIndex = at;
    const ordinary = kOrdinary.exec(text)?.[0];
    if (ordinary) {
      plain += ordinary;
      at += ordinary.length;
      continue;
    }
    const c = text[at];
    if (c === "\\") {
      const next = text[at + 1] ?? "";
      if ((next === "(" && math("\\(", "\\)", at + 2)) || (next === "[" && math("\\[", "\\]", at + 2))) continue;
      if (next === "\n") {
        push({type: "break"}, at + 2);
      } else if (/[!-/:-@[-`{-~]/.test(next)) {
        plain += next;
        at += 2;
      } else {
        plain += c;
        ++at;
      }
    } else if (c === "$" && text[at + 1] === "$" && math("$$", "$$", at + 2)) {
      continue;
    } else if (c === "`") {
      const length = /^`+/.exec(text.slice(at, at + 64))[0].length;
      const end = backticks.find(length, at + length);
      if (end < 0) {
        plain += text.slice(at, at + length);
        at += length;
      } else {
        let code = text.slice(at + length, end).replaceAll("\n", " ");
        if (/^ .* $/.test(code) && code.trim() !== "") code = code.slice(1, -1);
        push({type: "code", text: code}, end + length);
      }
    } else if (c === "*" || c === "_" || c === "~") {
      let end = at + 1;
      while (text[end] === c) ++end;
      const {opens, closes} = flanks(text, at, end);
      const length = end - at;
      if (length > (c === "~" ? 2 : kLongestRun) || (!opens && !closes)) {
        plain += text.slice(at, end);
        at = end;
      } else {
        push({type: "run", mark: c, count: length, length, opens, closes}, end);
      }
    } else if (c === "[" || (c === "!" && text[at + 1] === "[")) {
      const image = c === "!";
      flush();
      if (brackets.length === kDeepestBrackets) brackets.shift();
      brackets.push({at: pieces.length, image});
      push({type: "text", text: image ? "![" : "["}, at + (image ? 2 : 1));
    } else if (c === "]" && brackets.length > 0 && closeBracket()) {
      continue;
    } else if (c === "<") {
      const tag = /^<(?:(https?:\/\/[^\s<>]{1,2000})>|br\s*\/?>)/i.exec(text.slice(at, at + 2010));
      const href = tag?.[1] && safeHref(tag[1]);
      if (href) {
        push({type: "link", href, children: [{type: "text", text: tag[1]}]}, at + tag[0].length);
      } else if (tag && !tag[1]) {
        push({type: "break"}, at + tag[0].length);
      } else {
        plain += c;
        ++at;
      }
    } else if (
        (c === "h" || c === "H") && !/\w/.test(text[at - 1] ?? "") && /^https?:\/\//i.test(text.slice(at, at + 8))) {
      const address = bareAddress(text, at);
      const href = safeHref(address);
      if (href) {
        push({type: "link", href, children: [{type: "text", text: address}]}, at + address.length);
      } else {
        plain += c;
        ++at;
      }
    } else if (c === "\n") {
      const hard = plain.endsWith("  ");
      plain = plain.trimEnd();
      push(hard ? {type: "break"} : {type: "text", text: "\n"}, at + 1);
    } else {
      plain += c;
      ++at;
    }
  }
  flush();
  return joinTexts(pairEmphasis(pieces));
}
