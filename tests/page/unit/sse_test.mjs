// The reader of server-sent events: any cut of the stream gives the same events.
import assert from "node:assert/strict";
import {test} from "node:test";

import {SseReader} from "../../../web/assets/sse.js";

const kStream =
    ": keep-alive\n\ndata: {\"a\":1}\n\ndata:no space\r\n\r\ndata: cr\r\ndata: lf\r\n\r\nevent: x\ndata: two\ndata: lines\n\n\n\nid: 7\r\rdata: é😀\r\rdata:\n\ndata: [DONE]\n\ndata: unfinished\n";
const kEvents = ["{\"a\":1}", "no space", "cr\nlf", "two\nlines", "é😀", "", "[DONE]"];

test("whole", () => assert.deepEqual(new SseReader().push(kStream), kEvents));

test("cut anywhere, twice", () => {
  for (let first = 0; first <= kStream.length; ++first) {
    for (let second = first; second <= kStream.length; second += 3) {
      const reader = new SseReader();
      const events = [kStream.slice(0, first), kStream.slice(first, second), kStream.slice(second)].flatMap(
          (piece) => reader.push(piece));
      assert.deepEqual(events, kEvents, `${first} ${second}`);
    }
  }
});

test("one character at a time", () => {
  const reader = new SseReader();
  assert.deepEqual([...kStream].flatMap((c) => reader.push(c)), kEvents);
});
