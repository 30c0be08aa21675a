// The dialogs: settings, the API key, a question to the user. The browser's own <dialog> holds the focus and closes on
// Esc.

import {byId, h, setText} from "./dom.js";
import {kNoSettings, kNumbers, numberFault} from "./settings.js";

/** Opens a dialog; `submit(form)` returns true to close it. Resolves to whether it was submitted. */
function run(dialog, submit = () => true) {
  const form = dialog.querySelector("form");
  const ended = new AbortController();
  const {signal} = ended;
  return new Promise((resolve) => {
    let sent = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!(await submit(form))) return;
      sent = true;
      dialog.close();
    }, {signal});
    dialog.querySelector("[id$=-cancel]").addEventListener("click", () => dialog.close(), {signal});
    dialog.addEventListener("close", () => {
      ended.abort();
      resolve(sent);
    }, {signal});
    dialog.showModal();
  });
}

/** A yes-or-no question, or with `value` one for a text. Resolves to true, the text, or null. */
export async function ask({title, text = "", yes, value = null}) {
  const dialog = byId("ask");
  const input = dialog.querySelector("input");
  setText(byId("ask-title"), title);
  setText(byId("ask-text"), text);
  setText(byId("ask-yes"), yes);
  byId("ask-row").hidden = value === null;
  input.value = value ?? "";
  const asked = run(dialog);
  if (value === null)
    byId("ask-cancel").focus();
  else
    input.select();
  if (!(await asked)) return null;
  return value === null ? true : input.value;
}

let keyDialog = null;

/** Asks for the key until `accept(key)` says null (fine) or the user gives up. Several callers share one dialog. */
export function askKey({current, accept, keep, forget, why = ""}) {
  keyDialog ??= (async () => {
    const dialog = byId("key");
    const {key, remember} = dialog.querySelector("form").elements;
    key.value = current ?? "";
    setText(byId("key-fault"), why);
    byId("key-forget").hidden = !current;
    byId("key-forget").onclick = () => {
      forget();
      dialog.close();
    };
    const given = await run(dialog, async () => {
      setText(byId("key-fault"), "");
      const fault = key.value.trim() === "" ? "A key is needed." : await accept(key.value.trim());
      if (fault === null) keep(key.value.trim(), remember.checked);
      setText(byId("key-fault"), fault ?? "");
      key.setAttribute("aria-invalid", String(fault !== null));
      if (fault !== null) key.focus();
      return fault === null;
    });
    key.value = "";
    keyDialog = null;
    return given;
  })();
  return keyDialog;
}

/** The form of the settings, made once from the table. */
function fillNumbers() {
  byId("numbers").replaceChildren(...kNumbers.map(
      (field) =>
          h("div", {class: "row"},
            h("label",
              { for: `set-${field.name}`
              },
              field.label),
            h("input", {
              id: `set-${field.name}`,
              name: field.name,
              inputmode: "decimal",
              autocomplete: "off",
              placeholder: "default",
              "aria-describedby": `help-${field.name}`
            }),
            h("span", {id: `help-${field.name}`, class: "note"}, field.help))));
}

/** Resolves to the new settings, or null. `field` gets the focus. */
export async function editSettings(settings, field = null) {
  const dialog = byId("settings");
  const form = dialog.querySelector("form");
  if (byId("numbers").children.length === 0) fillNumbers();
  const put = (values) => {
    for (const name of Object.keys(kNoSettings)) form.elements[name].value = values[name];
    check();
  };
  const check = () => {
    let first = null;
    for (const each of kNumbers) {
      const input = form.elements[each.name];
      const fault = numberFault(each, input.value);
      input.setAttribute("aria-invalid", String(fault !== null));
      const help = byId(`help-${each.name}`);
      setText(help, fault ?? each.help);
      help.classList.toggle("fault", fault !== null);
      if (fault !== null) first ??= input;
    }
    return first;
  };
  form.oninput = check;
  byId("settings-reset").onclick = () => put(kNoSettings);
  put(settings);
  const edited = run(dialog, () => {
    const wrong = check();
    wrong?.focus();
    return wrong === null;
  });
  (form.elements[field] ?? form.elements.system).focus();
  if (!(await edited)) return null;
  return Object.fromEntries(Object.keys(kNoSettings).map((name) => [name, form.elements[name].value]));
}
