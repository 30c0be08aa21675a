// The messages that are shown, and where the reader is in them.

import {byId, copy} from "./dom.js";
import {MessageView} from "./message.js";

const kNear = 80;  // px from the end that still count as being there

export class Thread {
  #views = new Map();  // by message id, of the conversation that is shown
  #list = byId("thread");
  #scroll = byId("scroll");
  #follows = true;

  /** `act(name, message, button)` is called for the buttons of messages. */
  constructor(act) {
    this.#list.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-action]");
      if (!button) return;
      if (button.dataset.action === "copy-code")
        copy(button.closest("figure").querySelector("pre").textContent, button);
      else
        act(button.dataset.action, button.closest("[data-message]").dataset.message, button);
    });
    this.#scroll.addEventListener("scroll", () => this.#look(), {passive: true});
    new ResizeObserver(() => this.#keepUp()).observe(this.#list);
    byId("latest").addEventListener("click", () => {
      this.toEnd();
      byId("question").focus();
    });
  }

  /** Shows these messages of a conversation's tree and nothing else. */
  show(path, tree, context) {
    const elements = path.map((message) => this.update(message, tree, context).element);
    const wanted = new Set(path.map(({id}) => id));
    for (const [id, view] of this.#views) {
      if (wanted.has(id)) continue;
      view.element.remove();
      this.#views.delete(id);
    }
    elements.forEach((element, index) => {
      if (this.#list.children[index] !== element) this.#list.insertBefore(element, this.#list.children[index] ?? null);
    });
    byId("welcome").hidden = path.length > 0;
    this.#keepUp();
  }

  update(message, tree, context, settled = null) {
    let view = this.#views.get(message.id);
    if (!view) this.#views.set(message.id, (view = new MessageView(message)));
    view.update(message, tree.siblings(message), context, settled);
    return view;
  }

  view(id) { return this.#views.get(id); }

  clear() {
    this.#views.clear();
    this.#list.replaceChildren();
    this.#follows = true;
  }

  toEnd() {
    this.#follows = true;
    this.#keepUp();
  }

  #look() {
    const {scrollTop, scrollHeight, clientHeight} = this.#scroll;
    this.#follows = scrollHeight - scrollTop - clientHeight < kNear && !this.#list.querySelector(".edit");
    byId("latest").hidden = this.#follows;
  }

  /** Stays at the end while the text grows, unless the reader went elsewhere or changes a message. */
  #keepUp() {
    if (this.#follows && !this.#list.querySelector(".edit"))
      this.#scroll.scrollTop = this.#scroll.scrollHeight;
    else
      this.#look();
  }
}
