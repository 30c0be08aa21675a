// Talks to the server that brought this page, in OpenAI's protocol.

import {SseReader} from "./sse.js";

/** What went wrong, in words for the reader of the page. `status` 0: no answer came at all. */
export class ApiError extends Error {
  constructor(message, {status = 0, param = null, retryAfter = null} = {}) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, {status, param, retryAfter});
  }
}

async function refusal(response) {
  const text = await response.text().catch(() => "");
  let error = null;
  try {
    error = JSON.parse(text).error;
  } catch {
    // Not the server's own words (a proxy's page, say): its status has to do.
  }
  const message = typeof error?.message === "string" ?
      error.message :
      `The server answered ${response.status} ${response.statusText}`.trim();
  const retryAfter = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  return new ApiError(message, {
    status: response.status,
    param: typeof error?.param === "string" ? error.param : null,
    retryAfter: Number.isFinite(retryAfter) ? retryAfter : null,
  });
}

function chunkOf(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new ApiError("The server sent something that is no part of an answer.");
  }
}

export class Api {
  /** `key` is asked for at each call and may return null. */
  constructor(key) { this.key = key; }

  async #fetch(path, options = {}) {
    const headers = {...options.headers};
    const key = this.key();
    if (key) headers.Authorization = `Bearer ${key}`;
    let response;
    try {
      response =
          await fetch(path, {...options, headers, cache: "no-store", credentials: "same-origin", redirect: "error"});
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server did not answer. Is it running, and is this device connected to it?");
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }

  /** The model that is served: {id, context}; `context` is null if the server does not say. */
  async model() {
    const {data} = await (await this.#fetch("/v1/models")).json();
    return {id: data[0].id, context: data[0].max_model_len ?? null};
  }

  async version() { return (await (await this.#fetch("/version")).json()).version; }

  async metrics(signal) { return (await this.#fetch("/metrics", {signal})).text(); }

  /**
   * Streams an answer: yields the JSON of each chunk. Ends normally only if the server said that the answer is whole.
   * Throws ApiError, or an AbortError once `signal` is.
   */
  async * chat(request, signal) {
    const response = await this.#fetch("/v1/chat/completions", {
      method: "POST",
      headers: {"Content-Type": "application/json"},
      body: JSON.stringify({...request, stream: true, stream_options: {include_usage: true}}),
      signal,
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new SseReader();
    try {
      for (;;) {
        const {value, done} = await reader.read();
        if (done) break;
        for (const data of events.push(value)) {
          if (data === "[DONE]") return;
          const chunk = chunkOf(data);
          if (chunk.error) throw new ApiError(String(chunk.error.message ?? "The server failed"), {status: 500});
          yield chunk;
        }
      }
    } catch (error) {
      if (error.name === "AbortError" || error instanceof ApiError) throw error;
      throw new ApiError("The connection broke before the answer was whole.");
    } finally {
      reader.cancel().catch(() => {});
    }
    throw new ApiError("The connection ended before the answer was whole.");
  }
}
