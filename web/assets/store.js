// Conversations and their messages in IndexedDB: one record each, so that an answer that grows rewrites itself alone
// and two tabs in one conversation only add to it. Where the browser offers no database, they live as long as the page.

const kName = "pagoda";
const kVersion = 1;

function finished(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function committed(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () =>
        reject(transaction.error ?? new DOMException("the browser gave the change up", "AbortError"));
  });
}

class DatabaseStore {
  lasting = true;
  #database;

  constructor(database) {
    this.#database = database;
    database.onversionchange = () => database.close();
  }

  conversations() {
    return finished(this.#database.transaction("conversations").objectStore("conversations").getAll());
  }

  messages(conversation) {
    return finished(
        this.#database.transaction("messages").objectStore("messages").index("conversation").getAll(conversation));
  }

  async save(kind, record) {
    const transaction = this.#database.transaction(kind, "readwrite");
    transaction.objectStore(kind).put(record);
    await committed(transaction);
  }

  async deleteMessage(id) {
    const transaction = this.#database.transaction("messages", "readwrite");
    transaction.objectStore("messages").delete(id);
    await committed(transaction);
  }

  async delete(conversation) {
    const transaction = this.#database.transaction(["conversations", "messages"], "readwrite");
    transaction.objectStore("conversations").delete(conversation);
    const keys = transaction.objectStore("messages").index("conversation").openKeyCursor(conversation);
    keys.onsuccess = () => {
      if (!keys.result) return;
      transaction.objectStore("messages").delete(keys.result.primaryKey);
      keys.result.continue();
    };
    await committed(transaction);
  }
}

class MemoryStore {
  lasting = false;
  #records = {conversations: new Map(), messages: new Map()};

  async conversations() { return structuredClone([...this.#records.conversations.values()]); }

  async messages(conversation) {
    return structuredClone(
        [...this.#records.messages.values()].filter((message) => message.conversation === conversation));
  }

  async save(kind, record) { this.#records[kind].set(record.id, structuredClone(record)); }

  async deleteMessage(id) { this.#records.messages.delete(id); }

  async delete(conversation) {
    this.#records.conversations.delete(conversation);
    for (const [id, message] of this.#records.messages)
      if (message.conversation === conversation) this.#records.messages.delete(id);
  }
}

export async function openStore() {
  try {
    const request = indexedDB.open(kName, kVersion);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("conversations", {keyPath: "id"});
      request.result.createObjectStore("messages", {keyPath: "id"}).createIndex("conversation", "conversation");
    };
    const store = new DatabaseStore(await finished(request));
    await store.conversations();  // some browsers open what they do not read
    return store;
  } catch {
    return new MemoryStore();
  }
}

/** Why a save failed, for the reader of the page. */
export function saveFault(error) {
  if (error?.name === "QuotaExceededError")
    return "The browser has no room left: what is new here is not being kept. " +
        "Download what you need, then delete conversations.";
  return `The browser did not keep the last change (${
      error?.message || error?.name || "no reason given"}). Download what you need before you leave.`;
}

/** Tells other tabs of this page what changed here: {conversation}. */
export class OtherTabs {
  #channel = "BroadcastChannel" in window ? new BroadcastChannel("pagoda") : null;

  tell(conversation) { this.#channel?.postMessage({conversation}); }

  listen(heard) {
    if (this.#channel) this.#channel.onmessage = ({data}) => heard(data.conversation);
  }
}
