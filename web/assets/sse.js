// Server-sent events out of a stream of text (HTML standard, 9.2), as far as the OpenAI protocol uses them: `data`
// lines, an empty line that ends an event, and comments, which only keep the connection alive.

export class SseReader {
  #rest = "";
  #data = [];

  /** Takes the next piece of the stream; returns the data of each event that it completes. */
  push(piece) {
    // A CR that ends the piece may be half of a CRLF, so it waits for what follows.
    const lines = (this.#rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    const events = [];
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length > 0) events.push(this.#data.join("\n"));
        this.#data = [];
      } else if (line.startsWith("data:")) {
        this.#data.push(line.slice(line[5] === " " ? 6 : 5));
      }
    }
    return events;
  }
}
