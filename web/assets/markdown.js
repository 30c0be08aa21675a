// Markdown as models write it: headings, paragraphs, lists, quotes, fenced code, tables, rules, mathematics. A text
// becomes a list of blocks, plain objects; view.js draws them. From CommonMark it differs where models do: code is only
// what is fenced, list items may be indented by less, and a table needs no outer bars.

import {parseInline} from "./markdown_inline.js";

const kDeepest = 12;  // nesting of quotes and lists; deeper marks are text

// No expression here has two repeated parts that can share a text: none takes more than linear time.
const kFence = /^(\s*)(`{3,}|~{3,})([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?=\s|$)(.*)$/;
const kRule = /^ {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$/;
const kItem = /^(\s*)(?:([-*+])|(\d{1,9})([.)]))(\s+|$)(.*)$/;
const kQuote = /^ {0,3}>\s?(.*)$/;

const isBlank = (line) => /^\s*$/.test(line);
const indentation = (line) => line.length - line.trimStart().length;

/** Does this line begin a block of its own, even right after a paragraph's line? */
function interrupts(line) {
  if (kFence.test(line) || kHeading.test(line) || kRule.test(line) || kQuote.test(line)) return true;
  if (line.trimStart() === "$$" || line.trimStart() === "\\[") return true;
  const item = kItem.exec(line);
  return item !== null && item[6] !== "" && (item[2] !== undefined || item[3] === "1");
}

/** Cells of a table's row. A bar in code, or after a backslash, divides nothing. */
function cells(line) {
  const out = [""];
  const parts = line.trim().split(/(\\\||`+[^`]*`+|\|)/);
  for (const part of parts) {
    if (part === "|")
      out.push("");
    else
      out[out.length - 1] += part === "\\|" ? "|" : part;
  }
  if (line.trim().startsWith("|")) out.shift();
  if (out.length > 1 && out.at(-1).trim() === "") out.pop();
  return out.map((cell) => cell.trim());
}

function tableAlignment(row) {
  return cells(row).map((cell) => {
    if (cell.startsWith(":") && cell.endsWith(":")) return "center";
    return cell.endsWith(":") ? "right" : "left";
  });
}

/** Without the marks that may close a heading. */
function headingText(text) {
  const trimmed = text.trim();
  return /^#+$/.test(trimmed) ? "" : trimmed.replace(/\s#+$/, "").trimEnd();
}

/** The parsers below take all lines and the index of the block's first; they return {node, end}. */
function code(lines, at) {
  const [, indent, fence, info] = kFence.exec(lines[at]);
  const closing = new RegExp(`^\\s*${fence[0] === "`" ? "`" : "~"}{${fence.length},}\\s*$`);
  const text = [];
  let end = at + 1;
  for (; end < lines.length && !closing.test(lines[end]); ++end)
    text.push(lines[end].slice(Math.min(indent.length, indentation(lines[end]))));
  const closed = end < lines.length;
  const language = /^\{?\.?([\w+#.-]*)/.exec(info.trim())[1].toLowerCase();
  return {node: {type: "code", language, text: text.join("\n"), closed}, end: closed ? end + 1 : end};
}

function math(lines, at) {
  const close = lines[at].trim() === "$$" ? "$$" : "\\]";
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().endsWith(close)) ++end;
  end = Math.min(end + 1, lines.length);
  return {node: {type: "math", text: lines.slice(at, end).join("\n")}, end};
}

function quote(lines, at, depth) {
  const inner = [];
  let end = at;
  for (; end < lines.length; ++end) {
    const match = kQuote.exec(lines[end]);
    if (match)
      inner.push(match[1]);
    else if (!isBlank(lines[end]) && !isBlank(inner.at(-1)) && !interrupts(lines[end]))
      inner.push(lines[end]);
    else
      break;
  }
  return {node: {type: "quote", blocks: parseBlocks(inner, depth + 1)}, end};
}

function list(lines, at, depth) {
  const first = kItem.exec(lines[at]);
  const ordered = first[3] !== undefined;
  const mark = first[2] ?? first[4];
  const items = [];
  let loose = false;
  let end = at;
  while (end < lines.length) {
    const match = kItem.exec(lines[end]);
    if (!match || kRule.test(lines[end]) || (match[2] ?? match[4]) !== mark || match[1].length > first[1].length + 1)
      break;
    const offset =
        match[1].length + (match[2] ?? match[3] + match[4]).length + Math.min(Math.max(match[5].length, 1), 4);
    const inside = match[1].length + 2;
    const inner = [match[6]];
    let fence = null;
    let blanks = 0;
    let next = end + 1;
    for (; next < lines.length; ++next) {
      const line = lines[next];
      if (isBlank(line)) {
        ++blanks;
        continue;
      }
      const indented = indentation(line) >= inside;
      if (!indented && (blanks > 0 || fence || interrupts(line) || kItem.test(line))) break;
      for (; blanks > 0; --blanks) inner.push("");
      const stripped = line.slice(Math.min(indentation(line), offset));
      const mark3 = kFence.exec(stripped);
      if (mark3 && (!fence || (mark3[2].startsWith(fence) && mark3[3].trim() === ""))) fence = fence ? null : mark3[2];
      inner.push(stripped);
    }
    const more = next < lines.length ? kItem.exec(lines[next]) : null;
    const follows = more && (more[2] ?? more[4]) === mark && !kRule.test(lines[next]);
    if (blanks > 0 && follows) loose = true;
    const task = /^\[([ xX])\]\s+/.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(task[0].length);
    const blocks = parseBlocks(inner, depth + 1);
    if (inner.includes("") && blocks.filter((block) => block.type === "paragraph").length > 1) loose = true;
    items.push({checked: task ? task[1] !== " " : null, blocks});
    end = blanks > 0 && !follows ? next - blanks : next;
    if (!follows) break;
  }
  return {node: {type: "list", ordered, start: ordered ? Number(first[3]) : 1, tight: !loose, items}, end};
}

function table(lines, at) {
  const align = tableAlignment(lines[at + 1]);
  const row = (line) => {
    const texts = cells(line).slice(0, align.length);
    while (texts.length < align.length) texts.push("");
    return texts.map(parseInline);
  };
  const rows = [];
  let end = at + 2;
  for (; end < lines.length && !isBlank(lines[end]) && lines[end].includes("|"); ++end) rows.push(row(lines[end]));
  return {node: {type: "table", align, head: row(lines[at]), rows}, end};
}

function startsTable(lines, at) {
  return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") &&
      cells(lines[at + 1]).every((cell) => /^:?-+:?$/.test(cell)) &&
      cells(lines[at]).length === cells(lines[at + 1]).length;
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !interrupts(lines[end]) && !startsTable(lines, end)) ++end;
  const text = lines.slice(at, end)
                   .map((line, index, all) => (index + 1 < all.length ? line.trimStart() : line.trim()))
                   .join("\n");
  return {node: {type: "paragraph", inline: parseInline(text)}, end};
}

function block(lines, at, depth) {
  const line = lines[at];
  const nests = depth < kDeepest;
  if (kFence.test(line)) return code(lines, at);
  if (line.trim() === "$$" || line.trim() === "\\[") return math(lines, at);
  const heading = kHeading.exec(line);
  if (heading)
    return {
      node: {type: "heading", level: heading[1].length, inline: parseInline(headingText(heading[2]))},
      end: at + 1
    };
  if (kRule.test(line)) return {node: {type: "rule"}, end: at + 1};
  if (nests && kQuote.test(line)) return quote(lines, at, depth);
  if (nests && kItem.test(line)) return list(lines, at, depth);
  if (startsTable(lines, at)) return table(lines, at);
  return paragraph(lines, at);
}

/** The blocks of these lines. `starts`, if given, gets the index of each block's first line. */
function parseBlocks(lines, depth, starts = null) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const {node, end} = block(lines, at, depth);
    blocks.push(node);
    starts?.push(at);
    at = end;
  }
  return blocks;
}

function splitLines(source) {
  // A tab counts as four spaces, and only where it indents.
  return source.split("\n").map(
      (line) => line.replace(/\r$/, "").replace(/^[ \t]+/, (space) => space.replaceAll("\t", "    ")));
}

/** The blocks of a whole text. */
export function parseMarkdown(source) { return parseBlocks(splitLines(source), 0); }

/**
 * A text that grows at its end. `blocks` are those of the text so far; the first `settled` of them will never change.
 * A new character can change the last line's block, and with it whether that line still belongs to the block before: so
 * all but the last two are settled, and an append costs what the last two blocks cost.
 */
export class MarkdownStream {
  blocks = [];
  settled = 0;
  #tail = "";

  append(piece) {
    this.#tail += piece;
    const lines = splitLines(this.#tail);
    const starts = [];
    const open = parseBlocks(lines, 0, starts);
    this.blocks.length = this.settled;
    for (const each of open) this.blocks.push(each);
    if (open.length > 2) {
      this.settled += open.length - 2;
      let offset = 0;
      for (let line = 0; line < starts[open.length - 2]; ++line) offset = this.#tail.indexOf("\n", offset) + 1;
      this.#tail = this.#tail.slice(offset);
    }
  }
}
