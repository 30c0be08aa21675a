// What a conversation asks of the model. One table says which settings there are; the form, its checks and the request
// follow from it. What is left empty is not sent: the server's default holds.

export const kNumbers = [
  {name: "temperature", label: "Temperature", help: "0 always takes the likeliest token", min: 0, max: 2, step: 0.05},
  {
    name: "top_p",
    label: "Top p",
    help: "Smallest set of tokens with this share",
    min: 0,
    max: 1,
    step: 0.01,
    above: true
  },
  {name: "top_k", label: "Top k", help: "Only the k likeliest tokens; 0 is all", min: 0, max: 1_000_000, step: 1},
  {name: "min_p", label: "Min p", help: "Least share of the likeliest", min: 0, max: 1, step: 0.01},
  {
    name: "repetition_penalty",
    label: "Repetition penalty",
    help: "1 is none",
    min: 0,
    max: 10,
    step: 0.05,
    above: true
  },
  {
    name: "presence_penalty",
    label: "Presence penalty",
    help: "Once for a token that appeared",
    min: -2,
    max: 2,
    step: 0.1
  },
  {
    name: "frequency_penalty",
    label: "Frequency penalty",
    help: "For each time it appeared",
    min: -2,
    max: 2,
    step: 0.1
  },
  {name: "max_tokens", label: "Longest answer", help: "In tokens", min: 1, max: 10_000_000, step: 1},
  {name: "seed", label: "Seed", help: "The same seed, the same draw", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1},
];

export const kNoSettings =
    Object.freeze({system: "", stop: "", thinking: "", ...Object.fromEntries(kNumbers.map(({name}) => [name, ""]))});

/** What is wrong with the text of a number's field, or null. */
export function numberFault(field, text) {
  if (text.trim() === "") return null;
  const value = Number(text);
  const whole = field.step === 1;
  if (!Number.isFinite(value)) return "This is not a number.";
  if (whole && !Number.isSafeInteger(value)) return "A whole number is needed.";
  if (value < field.min || value > field.max || (field.above && value === field.min))
    return `It has to be ${field.above ? "above" : "at least"} ${field.min} and at most ${field.max}.`;
  return null;
}

const stopsOf = (settings) => settings.stop.split("\n").filter((line) => line !== "");

/**
 * The request for an answer to `messages`, oldest first. Answers that are empty (stopped at once, failed) are left
 * out.
 */
export function requestFor(model, settings, messages) {
  const request = {model, messages: []};
  if (settings.system.trim() !== "") request.messages.push({role: "system", content: settings.system});
  for (const {role, content} of messages)
    if (role === "user" || content !== "") request.messages.push({role, content});
  for (const {name} of kNumbers)
    if (settings[name].trim() !== "") request[name] = Number(settings[name]);
  if (stopsOf(settings).length > 0) request.stop = stopsOf(settings);
  if (settings.thinking !== "") request.chat_template_kwargs = {enable_thinking: settings.thinking === "on"};
  return request;
}

/** How many settings differ from the server's defaults. */
export function numberSet(settings) {
  return Object.keys(kNoSettings).filter((name) => settings[name].trim() !== "").length;
}
