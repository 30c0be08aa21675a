// The server's figures: reads Prometheus' text format and turns two readings into rates and quantiles.

const kSample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;

function labelsOf(text) {
  const labels = {};
  for (const [, name, value] of (text ?? "").matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g))
    labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
  return labels;
}

function valueOf(text) { return text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text); }

/** One reading of /metrics. */
export class Reading {
  #samples = new Map();

  constructor(text, at) {
    this.at = at;  // ms
    for (const line of text.split("\n")) {
      const match = kSample.exec(line);
      if (!match) continue;
      const [, name, labels, value] = match;
      if (!this.#samples.has(name)) this.#samples.set(name, []);
      this.#samples.get(name).push({labels: labelsOf(labels), value: valueOf(value)});
    }
  }

  /** The sum over all labels, or null if there is no such metric. */
  total(name) { return this.#samples.get(name)?.reduce((sum, {value}) => sum + value, 0) ?? null; }

  /** A histogram's cumulative counts by upper bound, summed over all other labels; empty if there is none. */
  buckets(name) {
    const counts = new Map();
    for (const {labels, value} of this.#samples.get(`${name}_bucket`) ?? []) {
      const bound = valueOf(labels.le);
      counts.set(bound, (counts.get(bound) ?? 0) + value);
    }
    return [...counts].sort(([a], [b]) => a - b);
  }
}

/** How much a counter grew between two readings; null if unknown. A counter that fell began anew, with its server. */
export function growth(before, now, name) {
  const [a, b] = [before.total(name), now.total(name)];
  if (a === null || b === null) return null;
  return b >= a ? b - a : b;
}

/** Growth a second. */
export function rate(before, now, name) {
  const grown = growth(before, now, name);
  return grown === null || now.at <= before.at ? null : (grown * 1000) / (now.at - before.at);
}

/** The q-quantile of what a histogram counted between two readings, straight lines within buckets; null if nothing. */
export function quantile(before, now, name, q) {
  const earlier = new Map(before.buckets(name));
  const later = now.buckets(name);
  const restarted = later.some(([bound, count]) => count < (earlier.get(bound) ?? 0));
  const counts = later.map(([bound, count]) => [bound, count - (restarted ? 0 : (earlier.get(bound) ?? 0))]);
  const all = counts.at(-1)?.[1] ?? 0;
  if (all === 0) return null;
  let [lower, below] = [0, 0];
  for (const [bound, count] of counts) {
    if (count >= q * all)
      return bound === Infinity ? lower : lower + ((bound - lower) * (q * all - below)) / Math.max(count - below, 1e-9);
    [lower, below] = [bound, count];
  }
  return lower;
}
