// From blocks to what the browser shows. A view is a plain tree: a string, or {tag, attributes, children}; `patch`
// changes a part of the document from one list of views to the next and leaves what is equal alone. Tags and attributes
// come from this file only and texts go in as text nodes, so nothing that a model writes can become markup.

import {highlight} from "./highlight.js";

const kPatience = 16_384;  // longer code that still grows is coloured when it has ended

const view = (tag, attributes, children) => ({tag, attributes, children});

function inlineView(node) {
  switch (node.type) {
    case "text":
      return node.text;
    case "code":
      return view("code", {}, [node.text]);
    case "math":
      return view("span", {class: "math"}, [node.text]);
    case "break":
      return view("br", {}, []);
    case "strong":
      return view("strong", {}, node.children.map(inlineView));
    case "emphasis":
      return view("em", {}, node.children.map(inlineView));
    case "strike":
      return view("del", {}, node.children.map(inlineView));
    case "link":
      return view(
          "a", {href: node.href, rel: "noopener noreferrer nofollow", target: "_blank"}, node.children.map(inlineView));
    case "image": {
      const label = `image: ${node.alt || "untitled"}`;
      if (!node.href) return view("span", {class: "image"}, [label]);
      return view(
          "a", {href: node.href, rel: "noopener noreferrer nofollow", target: "_blank", class: "image"}, [label]);
    }
    default:
      throw new Error(`no view for ${node.type}`);
  }
}

function codeView(node) {
  const pieces =
      !node.closed && node.text.length > kPatience ? [[null, node.text]] : highlight(node.text, node.language);
  const children = pieces.map(([kind, text]) => (kind ? view("span", {class: `code-${kind}`}, [text]) : text));
  return view("figure", {class: "code"}, [
    view(
        "figcaption", {},
        [
          view("span", {}, [node.language || "text"]),
          view("button", {type: "button", class: "quiet", "data-action": "copy-code"}, ["Copy"]),
        ]),
    view(
        "pre", {tabindex: "0", role: "region", "aria-label": `Code, ${node.language || "text"}`},
        [view("code", {}, children)]),
  ]);
}

function itemView(item, tight) {
  const children = item.blocks.flatMap(
      (block) => (tight && block.type === "paragraph" ? block.inline.map(inlineView) : [blockView(block)]));
  if (item.checked === null) return view("li", {}, children);
  const box = view(
      "input", {
        type: "checkbox",
        disabled: "",
        "aria-label": item.checked ? "done" : "open",
        ...(item.checked ? {checked: ""} : {})
      },
      []);
  return view("li", {class: "task"}, [box, " ", ...children]);
}

function tableView(node) {
  const row = (tag, texts) => view(
      "tr", {},
      texts.map(
          (text, column) => view(
              tag, {class: `to-${node.align[column]}`, ...(tag === "th" ? {scope: "col"} : {})},
              text.map(inlineView))));
  return view("div", {class: "table", tabindex: "0", role: "region", "aria-label": "Table"}, [
    view(
        "table", {},
        [view("thead", {}, [row("th", node.head)]), view("tbody", {}, node.rows.map((texts) => row("td", texts)))]),
  ]);
}

/**
 * The view of one block of markdown.js. Headings begin at the page's third level; a text that begins at its second is
 * as good.
 */
export function blockView(node) {
  switch (node.type) {
    case "paragraph":
      return view("p", {}, node.inline.map(inlineView));
    case "heading":
      return view(
          `h${Math.min(Math.max(node.level, 2) + 1, 6)}`, {class: `level-${node.level}`}, node.inline.map(inlineView));
    case "code":
      return codeView(node);
    case "math":
      return view("pre", {class: "math", tabindex: "0"}, [node.text]);
    case "quote":
      return view("blockquote", {}, node.blocks.map(blockView));
    case "list":
      return view(
          node.ordered ? "ol" : "ul", node.ordered && node.start !== 1 ? {start: String(node.start)} : {},
          node.items.map((item) => itemView(item, node.tight)));
    case "table":
      return tableView(node);
    case "rule":
      return view("hr", {}, []);
    default:
      throw new Error(`no view for ${node.type}`);
  }
}

function create(node) {
  if (typeof node === "string") return document.createTextNode(node);
  const element = document.createElement(node.tag);
  for (const [name, value] of Object.entries(node.attributes)) element.setAttribute(name, value);
  for (const child of node.children) element.append(create(child));
  return element;
}

function sameElement(a, b) {
  if (typeof a === "string" || typeof b === "string" || a.tag !== b.tag) return false;
  const names = Object.keys(a.attributes);
  return names.length === Object.keys(b.attributes).length &&
      names.every((name) => a.attributes[name] === b.attributes[name]);
}

/**
 * Turns the children of `parent`, which show `old`, into those that show `now`; the first `from` are known to be
 * equal.
 */
export function patch(parent, old, now, from = 0) {
  const shared = Math.min(old.length, now.length);
  for (let i = from; i < shared; ++i) {
    const [a, b] = [old[i], now[i]];
    if (a === b) continue;
    const element = parent.childNodes[i];
    if (typeof a === "string" && typeof b === "string") {
      if (b.startsWith(a))
        element.appendData(b.slice(a.length));  // a selection in it stays
      else
        element.data = b;
    } else if (sameElement(a, b)) {
      patch(element, a.children, b.children);
    } else {
      element.replaceWith(create(b));
    }
  }
  for (let i = old.length; i < now.length; ++i) parent.append(create(now[i]));
  for (let i = old.length; i > now.length; --i) parent.lastChild.remove();
}
