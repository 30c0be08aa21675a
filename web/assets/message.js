// One message on the page.

import {rateOf} from "./answer.js";
import {copy, duration, h, icon, number, setText} from "./dom.js";
import {MarkdownStream} from "./markdown.js";
import {blockView, patch} from "./view.js";

/**
 * A text that is shown as Markdown and may grow. `settled` is told the text of blocks that will not change any more.
 */
class Prose {
  element = h("div", {class: "prose"});
  #stream = new MarkdownStream();
  #text = "";
  #views = [];
  #told = 0;

  /** A block's text as it is spoken: code without the words around it. */
  #spoken(index) {
    const node = this.element.childNodes[index];
    return node.querySelector(":scope > pre")?.textContent ?? node.innerText;
  }

  show(text, settled = null) {
    if (text === this.#text) return;
    if (!text.startsWith(this.#text)) {
      this.#stream = new MarkdownStream();
      this.#text = "";
      this.#told = 0;
    }
    const kept = this.#text === "" ? 0 : this.#stream.settled;
    this.#stream.append(text.slice(this.#text.length));
    this.#text = text;
    const views = this.#stream.blocks.map((block, index) => (index < kept ? this.#views[index] : blockView(block)));
    patch(this.element, this.#views, views, kept);
    this.#views = views;
    for (; settled && this.#told < this.#stream.settled; ++this.#told) settled(this.#spoken(this.#told));
  }

  /** The text of the blocks that `settled` has not been told. */
  rest() { return [...this.element.childNodes.keys()].slice(this.#told).map((index) => this.#spoken(index)); }
}

function action(name, label, iconName) {
  return h(
      "button", {type: "button", class: "quiet", "data-action": name}, icon(iconName),
      h("span", {"data-label": true}, label));
}

/** "‹ 2 of 3 ›": the branches at this message. */
function branches(siblings, message) {
  const at = siblings.indexOf(message);
  const step = (to, label, name) =>
      h("button", {
        type: "button",
        class: "quiet square",
        "data-action": "branch",
        "data-to": siblings[to]?.id ?? "",
        "aria-label": label,
        disabled: !siblings[to]
      },
        icon(name));
  return h(
      "span", {class: "branches", role: "group", "aria-label": "Versions"}, step(at - 1, "Earlier version", "back"),
      h("span", {}, `${at + 1} of ${siblings.length}`), step(at + 1, "Later version", "forth"));
}

/** The figures of an answer: [what is shown, what it means]. */
export function figuresOf(message, context) {
  const {usage, timing} = message;
  const rate = rateOf(message);
  return [
    usage && [`${number(usage.completion)} tokens`, "tokens the model wrote"],
    rate &&
        [
          `${number(rate, rate < 100 ? 1 : 0)} tok/s`,
          "tokens a second, from the first to the last as they arrived here"
        ],
    timing?.first && [`first after ${duration(timing.first)}`, "from sending to the first text"],
    timing?.first && [`${duration(timing.total)} in all`, "from sending to the end"],
    usage &&
        [
          `${number(usage.prompt)} in the prompt${usage.cached ? `, ${number(usage.cached)} cached` : ""}`,
          "tokens of the conversation so far; cached ones were not computed again"
        ],
    usage && context &&
        [
          `${number((100 * (usage.prompt + usage.completion)) / context, 0)} % of the context`,
          `of ${number(context)} tokens`
        ],
  ].filter(Boolean);
}

const kEndings = {
  stopped: "Stopped by you.",
  lost: "This page was closed while the answer was written.",
  elsewhere: "Being written in another tab.",
  length: "Cut: the longest answer or the end of the context was reached.",
};

export class MessageView {
  #foot = h("footer");
  #shown = null;  // what the footer shows, to leave it alone otherwise
  #message;

  constructor(message) {
    this.#message = message;
    const user = message.role === "user";
    this.element =
        h("article", {class: `message ${message.role}`, "data-message": message.id, tabindex: "-1"},
          h("h2", {class: "unseen"}, user ? "You wrote" : `Answer${message.model ? ` of ${message.model}` : ""}`));
    if (user) {
      this.said = h("div", {class: "said"}, message.content);
      this.element.append(this.said, this.#foot);
      return;
    }
    this.prose = new Prose();
    this.wait =
        h("p", {class: "wait"}, h("span", {class: "dot", "aria-hidden": "true"}),
          h("span", {class: "unseen"}, "Waiting for the answer"));
    this.element.append(this.wait, this.prose.element, this.#foot);
  }

  /** Shows the message as it is now. `settled` hears of finished parts of the text, for those who listen. */
  update(message, siblings, context, settled = null) {
    this.#message = message;
    if (message.role === "assistant") {
      const running = message.state === "running";
      if (message.reasoning) this.#showReasoning(running && message.content === "");
      this.prose.show(message.content, settled);
      this.wait.hidden = !running || message.content !== "";
      this.element.setAttribute("aria-busy", String(running));
    }
    const shown = JSON.stringify([message.state, siblings.map(({id}) => id), message.timing, message.usage, context]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#showFoot(siblings, context);
  }

  /** What has not been announced yet of the text. */
  rest() { return this.prose.rest(); }

  #showReasoning(open) {
    if (!this.reasoning) {
      this.reasoning = {prose: new Prose(), summary: h("summary")};
      this.reasoning.element = h("details", {class: "reasoning"}, this.reasoning.summary, this.reasoning.prose.element);
      this.prose.element.before(this.reasoning.element);
    }
    const {reasoning, reasoning_ms: took} = this.#message;
    setText(this.reasoning.summary, open ? "Reasoning…" : took ? `Reasoned for ${duration(took)}` : "Reasoning");
    this.reasoning.prose.show(reasoning);
  }

  #showFoot(siblings, context) {
    const message = this.#message;
    const running = message.state === "running";
    const parts = [];
    if (message.state === "failed") parts.push(this.#faultView());
    const ending = kEndings[message.state] ?? (message.finish === "length" ? kEndings.length : null);
    if (ending) parts.push(h("p", {class: "note ending"}, ending));
    const actions = h("div", {class: "actions"}, siblings.length > 1 && branches(siblings, message));
    if (message.role === "user")
      actions.append(action("edit", "Edit", "edit"), action("copy", "Copy", "copy"));
    else if (!running) {
      if (message.content !== "") actions.append(action("copy", "Copy", "copy"));
      if (message.state !== "failed") actions.append(action("again", "Regenerate", "again"));
    }
    parts.push(actions);
    const figures = running || message.role === "user" ? [] : figuresOf(message, context);
    if (figures.length > 0)
      parts.push(
          h("ul", {class: "figures", "aria-label": "Figures"}, figures.map(([text, title]) => h("li", {title}, text))));
    this.#foot.replaceChildren(...parts);
  }

  #faultView() {
    const {text, status, param, retryAfter} = this.#message.fault;
    return h(
        "div", {class: "fault", role: "alert"},
        h("p", {}, h("strong", {}, status ? `Not answered (${status}). ` : "Not answered. "), text,
          retryAfter ? ` Try again in ${number(retryAfter)} s.` : ""),
        h("div", {class: "actions"}, h("button", {type: "button", "data-action": "again"}, icon("again"), "Try again"),
          status === 401 && h("button", {type: "button", "data-action": "key"}, icon("key"), "Enter a key"),
          param && param !== "messages" &&
              h("button", {type: "button", "data-action": "settings", "data-field": param}, icon("tune"),
                "Open the settings")));
  }

  /** Replaces a question by a box to change it in. `done(text or null)` is called once. */
  edit(done) {
    const box = h("textarea", {"aria-label": "Change your message", rows: "3"});
    box.value = this.#message.content;
    const form =
        h("form", {class: "edit"}, box,
          h("div", {class: "actions"}, h("button", {type: "submit", class: "strong"}, "Send as a new version"),
            h("button", {type: "button", class: "quiet", "data-cancel": true}, "Cancel")));
    const end = (text) => {
      form.replaceWith(this.said);
      this.#foot.hidden = false;
      done(text);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (box.value.trim() !== "") end(box.value);
    });
    form.querySelector("[data-cancel]").addEventListener("click", () => end(null));
    box.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        end(null);
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    this.said.replaceWith(form);
    this.#foot.hidden = true;
    box.focus();
  }

  copy(button) { return copy(this.#message.content, button); }
}
