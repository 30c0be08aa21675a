// The page's state, and what its controls do to it.

import {Answer, newMessage, randomId} from "./answer.js";
import {Api} from "./api.js";
import {ask, askKey, editSettings} from "./dialogs.js";
import {byId, h, icon, setText} from "./dom.js";
import {draft, keepJson, keptJson, key, theme} from "./keep.js";
import {Live} from "./live.js";
import {kNoSettings, numberSet, requestFor} from "./settings.js";
import {openStore, OtherTabs, saveFault} from "./store.js";
import {Thread} from "./thread.js";
import {kRoot, titleOf, toMarkdown, Tree} from "./tree.js";

const kSilence = 5000;  // ms without a sign after which another tab's answer is lost

/** What is wrong with a key, in words; null if the server takes it. */
async function keyFault(key) {
  try {
    await new Api(() => key).model();
    return null;
  } catch (error) {
    return error.status === 401 ? "The server does not know this key." : error.message;
  }
}

export class App {
  #api = new Api(() => key.get());
  #tabs = new OtherTabs();
  #thread = new Thread((name, id, button) => this.#act(name, id, button));
  #live = new Live(this.#api, () => this.#askKey("The live view needs a key."));
  #store;
  #model = null;
  #conversations = new Map();
  #current = null;  // conversation that is shown; it is kept once it has a message
  #tree = new Tree([], {});
  #answers = new Map();  // running here, by message id
  #frame = 0;

  async start() {
    this.#wire();
    this.#store = await openStore();
    if (!this.#store.lasting)
      this.#notice("store", "This browser keeps nothing for this page: conversations end with it.");
    for (const conversation of await this.#store.conversations())
      this.#conversations.set(conversation.id, conversation);
    this.#tabs.listen((id) => this.#heard(id));
    await this.#route();
    document.body.classList.add("ready");
    await this.#meet();
  }

  /** Who is there? Asks for a key if the server wants one. */
  async #meet() {
    try {
      this.#model = await this.#api.model();
      this.#notice("server", null);
      setText(byId("welcome-model"), this.#model.id);
      setText(byId("version"), `Pagoda ${await this.#api.version()}`);
      this.#show();
    } catch (error) {
      if (error.status === 401) {
        if (await this.#askKey()) return;
        this.#notice("server", "This server needs an API key.", "Enter a key", () => this.#askKey());
      } else {
        this.#notice("server", error.message, "Try again", () => this.#meet());
        if (error.retryAfter) setTimeout(() => this.#meet(), 1000 * error.retryAfter);  // its model is being loaded
      }
    }
  }

  /** Resolves to whether there is a key that the server takes. */
  async #askKey(why = "") {
    const given = await askKey({
      current: key.get(),
      why: key.get() ? "The server did not take the key that is kept here." : why,
      accept: keyFault,
      keep: (text, remember) => key.set(text, remember),
      forget: () => key.forget(),
    });
    if (given) await this.#meet();
    return given;
  }

  #wire() {
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    const question = byId("question");
    question.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    // Not by its address, which names the conversation.
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      question.focus();
    });
    question.addEventListener("input", () => {
      this.#fit();
      draft.set(this.#draftName, question.value);
    });
    byId("stop").addEventListener("click", () => this.#stop());
    byId("new").addEventListener("click", () => this.#open(null));
    byId("rename").addEventListener("click", () => this.#rename());
    byId("download").addEventListener("click", () => this.#download());
    byId("delete").addEventListener("click", () => this.#erase());
    byId("settings-open").addEventListener("click", () => this.#settings());
    byId("key-open").addEventListener("click", () => this.#manageKey());
    byId("side-open").addEventListener("click", () => this.#side(true));
    byId("side-close").addEventListener("click", () => this.#side(false));
    byId("side").addEventListener("click", (event) => {
      if (event.target.closest("a, #new")) this.#side(false, false);
    });
    for (const input of document.querySelectorAll("[name=theme]")) {
      input.checked = input.value === theme.get();
      input.addEventListener("change", () => theme.set(input.value));
    }
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      if (document.body.classList.contains("with-side"))
        this.#side(false);
      else if (this.#live.covers)
        this.#live.toggle(false);
      else
        this.#stop();
    });
    window.addEventListener("hashchange", () => this.#route());
    window.addEventListener("beforeunload", (event) => {
      if (this.#answers.size > 0) event.preventDefault();
    });
  }

  // Conversations

  async #route() {
    const id = /^#c\/(\w+)$/.exec(location.hash)?.[1];
    if (id && id === this.#current?.id) return;
    if (id && this.#conversations.has(id)) {
      await this.#open(id);
    } else {
      await this.#open(null);
    }
  }

  get #draftName() { return this.#conversations.has(this.#current.id) ? this.#current.id : "new"; }

  /** Shows a conversation; null begins a new one. */
  async #open(id) {
    this.#current = id ? this.#conversations.get(id) : {
      id: randomId(),
      title: "New conversation",
      created: Date.now(),
      updated: 0,
      chosen: {},
      settings: {...kNoSettings, ...keptJson("settings", {})}
    };
    this.#current.settings = {...kNoSettings, ...this.#current.settings};
    this.#thread.clear();
    const target = id ? `#c/${id}` : "#";
    if (location.hash !== target && !(target === "#" && location.hash === ""))
      history.pushState(null, "", id ? target : location.pathname);
    await this.#load();
    byId("question").value = draft.get(this.#draftName);
    this.#fit();
    this.#thread.toEnd();
    if (matchMedia("(hover: hover)").matches) byId("question").focus();
  }

  /** Reads the messages of the current conversation; those being written here are the objects that are written to. */
  async #load() {
    const conversation = this.#current;
    const messages = await this.#store.messages(conversation.id).catch(() => []);
    if (conversation !== this.#current) return;
    const here = messages.map((message) => {
      const answer = this.#answers.get(message.id);
      if (answer) return answer.message;
      if (message.state !== "running") return message;
      return {...message, state: Date.now() - (message.beat ?? 0) > kSilence ? "lost" : "elsewhere"};
    });
    for (const {message} of this.#answers.values())
      if (message.conversation === conversation.id && !here.includes(message)) here.push(message);
    this.#tree = new Tree(here, conversation.chosen);
    this.#show();
    if (here.some(({state}) => state === "elsewhere"))
      setTimeout(() => conversation === this.#current && this.#load(), kSilence + 500);
  }

  /** Another tab changed a conversation. */
  async #heard(id) {
    const all = await this.#store.conversations();
    this.#conversations = new Map(all.map(
        (conversation) => [conversation.id, conversation.id === this.#current?.id ? this.#current : conversation]));
    this.#list();
    if (id !== this.#current?.id || this.#answering()) return;
    if (this.#conversations.has(id))
      await this.#load();
    else
      await this.#open(null);
  }

  async #keep(kind, record) {
    try {
      await this.#store.save(kind, record);
      this.#notice("save", null);
      this.#tabs.tell(record.conversation ?? record.id);
    } catch (error) {
      this.#notice("save", saveFault(error));
    }
  }

  #keepConversation(conversation, touched = true) {
    if (touched) conversation.updated = Date.now();
    this.#conversations.set(conversation.id, conversation);
    this.#list();
    return this.#keep("conversations", conversation);
  }

  async #rename() {
    const title = await ask({title: "Rename this conversation", yes: "Rename", value: this.#current.title});
    if (!title?.trim()) return;
    this.#current.title = title.trim();
    if (this.#conversations.has(this.#current.id)) await this.#keepConversation(this.#current, false);
    this.#show();
  }

  async #erase() {
    const {id, title} = this.#current;
    if (!(await ask({
          title: "Delete this conversation?",
          text: `“${title}” and all its versions leave this browser for good.`,
          yes: "Delete"
        })))
      return;
    this.#stop();
    try {
      await this.#store.delete(id);
      this.#conversations.delete(id);
      this.#tabs.tell(id);
      this.#notice("save", null);
    } catch (error) {
      this.#notice("save", saveFault(error));
      return;
    }
    this.#list();
    await this.#open(null);
  }

  #download() {
    const url = URL.createObjectURL(new Blob([toMarkdown(this.#current, this.#tree.path())], {type: "text/markdown"}));
    h("a", {
      href: url,
      download: `${this.#current.title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim() || "conversation"}.md`
    }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  async #settings(field = null) {
    const settings = await editSettings(this.#current.settings, field);
    if (!settings) return;
    this.#current.settings = settings;
    keepJson("settings", settings);
    if (this.#conversations.has(this.#current.id)) await this.#keepConversation(this.#current, false);
    this.#show();
  }

  async #manageKey() {
    await askKey({
      current: key.get(),
      accept: keyFault,
      keep: (text, remember) => key.set(text, remember),
      forget: () => key.forget(),
    });
    await this.#meet();
  }

  // Messages

  #act(name, id, button) {
    const message = this.#tree.get(id);
    switch (name) {
      case "again":
        if (message.state === "failed" && message.content + message.reasoning === "") this.#forget(message);
        this.#answer(message.parent);
        return this.#thread.view(this.#tree.path().at(-1).id).element.focus({preventScroll: true});
      case "branch": {
        this.#tree.choose(this.#tree.get(button.dataset.to));
        this.#keepConversation(this.#current, false);
        this.#show();
        const again = this.#thread.view(button.dataset.to)
                          .element.querySelector(`[aria-label="${button.getAttribute("aria-label")}"]`);
        return (again.disabled ? this.#thread.view(button.dataset.to).element : again).focus();
      }
      case "edit":
        return this.#thread.view(id).edit((text) => {
          if (text === null) return this.#thread.view(id)?.element.querySelector("[data-action=edit]").focus();
          this.#say(message.parent, text);
          byId("question").focus();
        });
      case "copy":
        return this.#thread.view(id).copy(button);
      case "key":
        return this.#askKey();
      case "settings":
        return this.#settings(button.dataset.field);
    }
  }

  /** An answer that never began is no version to return to. */
  #forget(message) {
    this.#tree.remove(message);
    this.#store.deleteMessage(message.id).catch((error) => this.#notice("save", saveFault(error)));
  }

  #answering() { return [...this.#answers.values()].find(({message}) => message.conversation === this.#current?.id); }

  #stop() { this.#answering()?.stop(); }

  #send() {
    const question = byId("question");
    if (question.value.trim() === "" || this.#answering()) return;
    const text = question.value;
    question.value = "";
    draft.set(this.#draftName, "");
    this.#fit();
    this.#say(this.#tree.path().at(-1)?.id ?? kRoot, text);
  }

  /** Adds a question below `parent` and has it answered. */
  async #say(parent, text) {
    if (this.#answering()) return;
    const conversation = this.#current;
    const first = !this.#conversations.has(conversation.id);
    const message = newMessage(conversation.id, parent, "user", text);
    if (first) {
      conversation.title = titleOf(text);
      history.replaceState(null, "", `#c/${conversation.id}`);
    }
    this.#tree.add(message);
    this.#keepConversation(conversation);
    this.#keep("messages", message);
    await this.#answer(message.id);
  }

  /** Has the question `parent` answered, beside the answers it has. */
  async #answer(parent) {
    if (this.#answering()) return;
    const conversation = this.#current;
    const tree = this.#tree;
    const message = {
      ...newMessage(conversation.id, parent, "assistant"),
      model: this.#model?.id ?? null,
      state: "running"
    };
    tree.add(message);
    const answer = new Answer(message, {changed: () => this.#redraw(), save: () => this.#keep("messages", message)});
    this.#answers.set(message.id, answer);
    this.#announce(null);
    this.#show();
    this.#thread.toEnd();
    this.#keepConversation(conversation);
    try {
      if (!this.#model) await this.#meet();
      message.model = this.#model?.id ?? null;
      await answer.run(this.#api, requestFor(message.model ?? "", conversation.settings, tree.before(message)));
    } finally {
      this.#answers.delete(message.id);
      cancelAnimationFrame(this.#frame);
      this.#frame = 0;
    }
    if (conversation === this.#current) {
      const view = this.#thread.update(message, this.#tree, this.#model?.context, (text) => this.#announce(text));
      for (const text of view.rest()) this.#announce(text);
      if (message.state !== "failed")
        this.#announce(message.state === "stopped" ? "Stopped." : "The answer is complete.");
    }
    this.#show();
    if (message.fault?.status === 401 && conversation === this.#current && (await this.#askKey())) {
      this.#forget(message);
      this.#answer(parent);
    }
  }

  /** Draws the answer that grows here, once a frame. */
  #redraw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const message = this.#answering()?.message;
      if (message && this.#tree.path().includes(message))
        this.#thread.update(message, this.#tree, this.#model?.context, (text) => this.#announce(text));
    });
  }

  /** For those who hear the page: parts of an answer as they are complete. */
  #announce(text) {
    const announcer = byId("announcer");
    if (text === null)
      announcer.replaceChildren(h("p", {}, "Sent."));
    else if (text.trim() !== "")
      announcer.append(h("p", {}, text));
  }

  // The page

  #show() {
    const path = this.#tree.path();
    this.#thread.show(path, this.#tree, this.#model?.context);
    const kept = this.#conversations.has(this.#current.id);
    const running = Boolean(this.#answering());
    setText(byId("rename"), this.#current.title);
    document.title = kept ? `${this.#current.title} · Pagoda` : "Pagoda";
    const lost = document.activeElement === byId(running ? "send" : "stop");
    byId("send").hidden = running;
    byId("stop").hidden = !running;
    if (lost) byId(running ? "stop" : "question").focus();
    byId("download").disabled = byId("delete").disabled = !kept;
    const set = numberSet(this.#current.settings);
    setText(byId("settings-count"), set ? `${set} set` : "");
    this.#list();
  }

  #list() {
    const running = new Set([...this.#answers.values()].map(({message}) => message.conversation));
    const sorted = [...this.#conversations.values()].sort((a, b) => b.updated - a.updated);
    const focused =
        byId("conversations").contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    byId("conversations")
        .replaceChildren(...sorted.map(
            ({id, title}) =>
                h("li", {},
                  h("a", {href: `#c/${id}`, "aria-current": id === this.#current?.id ? "page" : null},
                    h("span", {}, title),
                    running.has(id) && h("span", {class: "dot"}, h("span", {class: "unseen"}, " (being answered)"))))));
    if (focused) byId("conversations").querySelector(`[href="${focused}"]`)?.focus();
  }

  #side(open, focus = true) {
    document.body.classList.toggle("with-side", open);
    byId("side-open").setAttribute("aria-expanded", String(open));
    byId("main").inert = open;
    if (focus) byId(open ? "side-close" : "side-open").focus();
  }

  #fit() {
    const question = byId("question");
    question.style.height = "auto";
    question.style.height = `${question.scrollHeight}px`;
  }

  /** A line above the messages; null takes it away. */
  #notice(name, text, label = null, act = null) {
    const notices = byId("notices");
    notices.querySelector(`[data-name=${name}]`)?.remove();
    if (text === null) return;
    notices.append(
        h("div", {class: "notice", role: "alert", "data-name": name}, h("p", {}, text),
          label && h("button", {type: "button", onclick: act}, label),
          h("button", {
            type: "button",
            class: "quiet square",
            "aria-label": "Close this notice",
            onclick: (event) => event.currentTarget.parentElement.remove()
          },
            icon("close"))));
  }
}
