// A conversation is a tree of messages: an edited question or another answer is a sibling, and what is shown is the
// path that follows the chosen child at each message. Nothing is overwritten, so each branch can be returned to.

/** The parent of a first message. */
export const kRoot = "";

export class Tree {
  #messages = new Map();
  #children = new Map();

  /** `chosen` maps a message's id to that of the child to follow; it is kept by whoever owns the conversation. */
  constructor(messages, chosen) {
    this.chosen = chosen;
    for (const message of [...messages].sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1)))
      this.#insert(message);
  }

  #insert(message) {
    this.#messages.set(message.id, message);
    const siblings = this.#children.get(message.parent) ?? [];
    siblings.push(message);
    this.#children.set(message.parent, siblings);
  }

  /** Adds a message and shows it. */
  add(message) {
    this.#insert(message);
    this.chosen[message.parent] = message.id;
  }

  /** Takes away a message that nothing follows. */
  remove(message) {
    this.#messages.delete(message.id);
    const siblings = this.#children.get(message.parent).filter((sibling) => sibling !== message);
    if (siblings.length > 0)
      this.#children.set(message.parent, siblings);
    else
      this.#children.delete(message.parent);
    if (this.chosen[message.parent] === message.id) delete this.chosen[message.parent];
  }

  get(id) { return this.#messages.get(id); }

  /** All messages with this one's parent, oldest first, itself among them. */
  siblings(message) { return this.#children.get(message.parent); }

  choose(message) { this.chosen[message.parent] = message.id; }

  /** The messages that are shown, first to last. */
  path() {
    const path = [];
    for (let at = kRoot;;) {
      const children = this.#children.get(at);
      if (!children) return path;
      const next = children.find((child) => child.id === this.chosen[at]) ?? children.at(-1);
      path.push(next);
      at = next.id;
    }
  }

  /** What precedes a message, first to last. */
  before(message) {
    const path = [];
    for (let at = this.get(message.parent); at; at = this.get(at.parent)) path.unshift(at);
    return path;
  }
}

/** A title for a conversation: the beginning of its first question. */
export function titleOf(text) {
  const line = text.trim().split("\n", 1)[0].replace(/\s+/g, " ");
  const characters = Array.from(line);
  return characters.length > 60 ? `${characters.slice(0, 59).join("").trimEnd()}…` : line || "Untitled";
}

/** A conversation as Markdown text: the branch that is shown. */
export function toMarkdown(conversation, path) {
  const parts = [`# ${conversation.title}`];
  if (conversation.settings.system) parts.push(`## System\n\n${conversation.settings.system}`);
  for (const message of path)
    parts.push(`## ${message.role === "user" ? "You" : message.model || "Assistant"}\n\n${message.content}`);
  return `${parts.join("\n\n")}\n`;
}
