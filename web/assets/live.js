// The live view: reads /metrics once a second while it is open and visible.

import {byId, duration, h, number, setText, svg} from "./dom.js";
import {growth, quantile, rate, Reading} from "./metrics.js";

const kEvery = 1000;  // ms
const kKept = 120;    // readings
const kWindow = 60;   // readings that quantiles look back over

const seconds = (value) => (value === null ? null : duration(value * 1000));
const perSecond = (value) => (value === null ? null : number(value, value < 10 ? 1 : 0));
const count = (value) => (value === null ? null : number(value));

/** Both quantiles of a histogram as text. */
function spread(name) {
  return ({now, windowStart}) => {
    const [half, most] = [0.5, 0.95].map((q) => quantile(windowStart, now, name, q));
    return half === null ? "none in the last minute" : `${seconds(half)} · ${seconds(most)}`;
  };
}

/**
 * What is shown: `value` for the number and, with `curve`, its course. A figure the server does not have is left out.
 */
const kFigures = [
  {
    title: "Running",
    unit: "requests",
    metric: "pagoda_num_requests_running",
    value: ({now}, m) => now.total(m),
    text: count,
    curve: true
  },
  {
    title: "Waiting",
    unit: "requests",
    metric: "pagoda_num_requests_waiting",
    value: ({now}, m) => now.total(m),
    text: count,
    curve: true
  },
  {
    title: "KV cache",
    unit: "% in use",
    metric: "pagoda_kv_cache_usage_perc",
    value: ({now}, m) => 100 * now.total(m),
    text: (v) => number(v, 1),
    curve: true,
    top: 100
  },
  {
    title: "Writing",
    unit: "tokens a second",
    metric: "pagoda_generation_tokens_total",
    value: ({before, now}, m) => rate(before, now, m),
    text: perSecond,
    curve: true
  },
  {
    title: "Reading",
    unit: "prompt tokens a second",
    metric: "pagoda_prompt_tokens_total",
    value: ({before, now}, m) => rate(before, now, m),
    text: perSecond,
    curve: true
  },
];

const kLines = [
  {
    title: "First token, p50 · p95",
    metric: "pagoda_time_to_first_token_seconds_count",
    text: spread("pagoda_time_to_first_token_seconds")
  },
  {
    title: "Between tokens, p50 · p95",
    metric: "pagoda_inter_token_latency_seconds_count",
    text: spread("pagoda_inter_token_latency_seconds")
  },
  {
    title: "Prompt tokens from the cache",
    metric: "pagoda_prompt_tokens_cached_total",
    text: ({now, windowStart}, m) => {
      const [cached, all] = [growth(windowStart, now, m), growth(windowStart, now, "pagoda_prompt_tokens_total")];
      return all ? `${number((100 * cached) / all)} %` : "none in the last minute";
    },
  },
  {title: "Finished", metric: "pagoda_request_success_total"},
  {title: "Aborted", metric: "pagoda_requests_aborted_total"},
  {title: "Refused", metric: "pagoda_requests_refused_total"},
  {title: "Preemptions", metric: "pagoda_num_preemptions_total"},
];

/** The course of a value over the last two minutes; the numbers beside it say the same in text. */
function curve(values, top) {
  const highest = Math.max(top ?? 0, ...values, 1e-9);
  const points = values.map(
      (value, index) => `${(240 * (index + kKept - values.length)) / (kKept - 1)},${39 - 36 * (value / highest)}`);
  const first = points[0].split(",")[0];
  return [
    svg("path", {class: "area", d: `M${first},40 L${points.join(" L")} L240,40 Z`}),
    svg("path", {class: "line", d: `M${points.join(" L")}`})
  ];
}

export class Live {
  #api;
  #timer = null;
  #abort = null;
  #readings = [];
  #curves = new Map();
  #figures = byId("live-figures");
  #parts = null;

  /** `refused` is told when the server wants a key. */
  constructor(api, refused) {
    this.#api = api;
    this.refused = refused;
    byId("live-open").addEventListener("click", () => this.toggle());
    byId("live-close").addEventListener("click", () => this.toggle(false));
    byId("live").addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.toggle(false);
    });
    document.addEventListener("visibilitychange", () => this.#schedule());
  }

  get open() { return !byId("live").hidden; }

  /** Does it lie over the conversation? page.css says where. */
  get covers() { return this.open && getComputedStyle(byId("live")).position === "fixed"; }

  toggle(open = !this.open) {
    byId("live").hidden = !open;
    byId("live-open").setAttribute("aria-expanded", String(open));
    document.body.classList.toggle("with-live", open);
    (open ? byId("live-close") : byId("live-open")).focus();
    this.#schedule();
  }

  #schedule() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#timer = null;
    if (this.open && !document.hidden) this.#read();
  }

  async #read() {
    const abort = (this.#abort = new AbortController());
    try {
      const text = await this.#api.metrics(abort.signal);
      if (abort.signal.aborted) return;
      this.#readings.push(new Reading(text, performance.now()));
      if (this.#readings.length > kKept) this.#readings.shift();
      this.#show();
    } catch (error) {
      if (abort.signal.aborted) return;
      this.#fault(error);
      if (error.status === 401 && !(await this.refused())) return;
    }
    if (!abort.signal.aborted) this.#timer = setTimeout(() => this.#read(), kEvery);
  }

  #fault(error) {
    this.#parts = null;
    this.#readings = [];
    this.#curves.clear();
    this.#figures.replaceChildren(h("p", {class: "fault", role: "alert"}, error.message));
  }

  #show() {
    const now = this.#readings.at(-1);
    const looked = {
      now,
      before: this.#readings.at(-2) ?? now,
      windowStart: this.#readings.at(-kWindow) ?? this.#readings[0]
    };
    this.#parts ??= this.#build(now);
    for (const {figure, value, drawing} of this.#parts.figures) {
      const measured = figure.value(looked, figure.metric);
      setText(value, measured === null ? "–" : figure.text(measured));
      const values = this.#curves.get(figure.metric) ?? [];
      if (measured !== null) values.push(measured);
      if (values.length > kKept) values.shift();
      this.#curves.set(figure.metric, values);
      if (values.length > 1) drawing.replaceChildren(...curve(values, figure.top));
    }
    for (const {line, value} of this.#parts.lines)
      setText(value, line.text ? line.text(looked, line.metric) : count(now.total(line.metric)));
  }

  #build(reading) {
    const has = ({metric}) => reading.total(metric) !== null;
    const figures = kFigures.filter(has).map((figure) => {
      const value = h("strong", {}, "–");
      const drawing = svg("svg", {viewBox: "0 0 240 40", preserveAspectRatio: "none", "aria-hidden": "true"});
      return {
        figure,
        value,
        drawing,
        element: h("div", {class: "figure"}, h("dt", {}, figure.title), h("dd", {}, value, ` ${figure.unit}`), drawing)
      };
    });
    const lines = kLines.filter(has).map((line) => {
      const value = h("dd", {});
      return {line, value, element: h("div", {}, h("dt", {}, line.title), value)};
    });
    this.#figures.replaceChildren(
        h("dl", {class: "curves"}, figures.map(({element}) => element)),
        h("dl", {class: "lines"}, lines.map(({element}) => element)),
        h("p", {class: "note"},
          "Once a second, from this server’s /metrics. Curves show two minutes; p50 and p95 the last minute; " +
              "counts since its start."));
    return {figures, lines};
  }
}
