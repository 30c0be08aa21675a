// Small values kept in the browser: a key for the server, the theme, defaults. A browser that keeps nothing only
// forgets.

const kPrefix = "pagoda.";

function read(storage, name) {
  try {
    return window[storage].getItem(kPrefix + name);
  } catch {
    return null;
  }
}

/** False if the browser did not keep it. */
function write(storage, name, value) {
  try {
    if (value === null)
      window[storage].removeItem(kPrefix + name);
    else
      window[storage].setItem(kPrefix + name, value);
    return true;
  } catch {
    return false;
  }
}

/** The API key: for this tab, or on this device if asked to. */
export const key = {
  current: null,

  get() {
    this.current ??= read("sessionStorage", "key") ?? read("localStorage", "key");
    return this.current;
  },

  set(value, remember) {
    this.current = value;
    write("sessionStorage", "key", remember ? null : value);
    write("localStorage", "key", remember ? value : null);
  },

  forget() { this.set(null, false);},
};

export function keptJson(name, otherwise) {
  try {
    return JSON.parse(read("localStorage", name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keepJson(name, value) { return write("localStorage", name, JSON.stringify(value)); }

/** What was begun to be written, by conversation, for this tab. */
export const draft = {
  get: (conversation) => read("sessionStorage", `draft.${conversation}`) ?? "",
  set: (conversation, text) => write("sessionStorage", `draft.${conversation}`, text === "" ? null : text),
};

/** "auto", "light" or "dark". */
export const theme = {
  get() { return document.documentElement.dataset.theme ?? "auto";},

  set(value) {
    if (value === "auto")
      delete document.documentElement.dataset.theme;
    else
      document.documentElement.dataset.theme = value;
    write("localStorage", "theme", value === "auto" ? null : value);
  },
};
