// One answer while it is written: asks the server, fills the message in, measures it.

import {ApiError} from "./api.js";

const kSaveEvery = 1000;  // ms

/** A message as it is kept. `state`: done, running, stopped, failed, or lost (its page went away). */
export function newMessage(conversation, parent, role, content = "") {
  return {id: randomId(), conversation, parent, role, content, reasoning: "", created: Date.now(), state: "done"};
}

/** Not crypto.randomUUID: that exists on secure pages only, and plain http from another machine is none. */
export function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Answer {
  #abort = new AbortController();
  #changed;
  #save;

  /** `changed` is called when the message has grown, `save` about once a second and at the end. */
  constructor(message, {changed, save}) {
    this.message = message;
    this.#changed = changed;
    this.#save = save;
  }

  stop() { this.#abort.abort(); }

  /** Settles when the answer has ended, however it did. */
  async run(api, request) {
    const {message} = this;
    const started = performance.now();
    let first = null;
    let last = null;
    const beat = () => {
      message.beat = Date.now();
      this.#save();
    };
    message.state = "running";
    beat();
    const beats = setInterval(beat, kSaveEvery);
    try {
      for await (const chunk of api.chat(request, this.#abort.signal)) {
        const choice = chunk.choices?.[0];
        const {content, reasoning_content: reasoning} = choice?.delta ?? {};
        if (content || reasoning) {
          last = performance.now();
          first ??= last;
          if (content && message.content === "" && message.reasoning !== "") message.reasoning_ms = last - started;
          message.reasoning += reasoning ?? "";
          message.content += content ?? "";
        }
        if (choice?.finish_reason) message.finish = choice.finish_reason;
        if (chunk.usage) {
          message.usage = {
            prompt: chunk.usage.prompt_tokens,
            cached: chunk.usage.prompt_tokens_details?.cached_tokens ?? 0,
            completion: chunk.usage.completion_tokens,
          };
        }
        this.#changed();
      }
      message.state = "done";
    } catch (error) {
      if (error.name === "AbortError") {
        message.state = "stopped";
      } else {
        const {status, param, retryAfter} = error instanceof ApiError ? error : {};
        message.state = "failed";
        message.fault =
            {text: error.message, status: status ?? null, param: param ?? null, retryAfter: retryAfter ?? null};
      }
    }
    clearInterval(beats);
    message.timing = {
      total: performance.now() - started,
      first: first === null ? null : first - started,
      writing: first === null ? null : last - first
    };
    this.#changed();
    this.#save();
  }
}

/** Tokens a second between the first and the last piece that arrived, or null where that means nothing. */
export function rateOf({usage, timing}) {
  if (!usage || !timing?.writing || usage.completion < 2) return null;
  return (usage.completion - 1) / (timing.writing / 1000);
}
