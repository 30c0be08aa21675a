// Small tools for the document.

/**
 * An element: `h("p", {class: "x", onclick: f}, "text", child)`. False, null and undefined attributes and children are
 * left out.
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === "function")
      element.addEventListener(name.slice(2), value);
    else
      element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== false && child !== null && child !== undefined));
  return element;
}

const kSvg = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(kSvg, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** One of the drawings in index.html; decoration beside a text or a label. */
export function icon(name) {
  return svg("svg", {class: "icon", "aria-hidden": "true", focusable: "false"}, svg("use", {href: `#icon-${name}`}));
}

export function byId(id) { return document.getElementById(id); }

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Puts text on the clipboard and says so on the button for a moment. */
export async function copy(text, button) {
  const label = button.querySelector("[data-label]") ?? button;
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(text);
    setText(label, "Copied");
  } catch {
    setText(label, "Not allowed");  // no clipboard over plain http from another machine
  }
  setTimeout(() => setText(label, before), 1500);
}

export function number(value, digits = 0) {
  return value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

/** A time in words that fit its size. */
export function duration(ms) {
  if (ms < 1000) return `${number(ms)} ms`;
  if (ms < 60_000) return `${number(ms / 1000, 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${number(Math.floor(ms / 1000) % 60)} s`;
}
