// Plots with scales, drawn as SVG: text is text, and colours follow the theme without drawing anew.
import { element, shape } from "./dom.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [46, 8, 18, 20];
const STEPS = [1, 2, 5, 10];
const figures = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "compact" });

/** Return the end of a scale for values up to this one: 1, 2 or 5 times a power of ten. */
export function end(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * STEPS.find((step) => value <= step * power * 1.000001);
}

/** A plot of the last seconds, the newest on the right. */
export class Plot {
  /**
   * @param {SVGElement} drawing to fill; its `aria-label` says what it shows, and is completed with the newest values.
   * @param {{unit: string, seconds: number, least?: number, hasBars?: boolean}} settings: the unit of the values; the
   *   least end of their scale, so that small noise does not look large; bars for one series of counts, or lines.
   */
  constructor(drawing, { unit, seconds, least = 1, hasBars = false }) {
    Object.assign(this, { drawing, unit, seconds, least, hasBars });
    this.label = drawing.getAttribute("aria-label");
    this.series = [];
    this.bands = [];
    new ResizeObserver(() => this.draw()).observe(drawing);
  }

  /**
   * @param {{name: string, values: (number|null)[]}[]} series with the newest value last; null is a gap.
   * @param {boolean[]} bands the seconds without a primary, likewise.
   */
  show(series, bands = []) {
    this.series = series;
    this.bands = bands;
    this.draw();
  }

  draw() {
    const [width, height] = [this.drawing.clientWidth, this.drawing.clientHeight];
    if (width < 2 * LEFT || !height) return;
    const known = this.series.flatMap(({ values }) => values).filter((value) => value !== null);
    const top = end(Math.max(this.least, ...known));
    const bottom = height - BOTTOM;
    const step = (width - LEFT - RIGHT) / this.seconds;
    const x = (age) => width - RIGHT - age * step; // the right edge of the second so long ago
    const y = (value) => bottom - (value / top) * (bottom - TOP);
    const drawn = [text(LEFT, 11, this.unit, "unit")];
    this.bands.forEach((isOne, index) => {
      const age = this.bands.length - 1 - index;
      if (isOne && age < this.seconds) {
        drawn.push(shape("rect", { class: "band", x: x(age + 1), y: TOP, width: step, height: bottom - TOP }));
      }
    });
    for (const value of [0, top / 2, top]) {
      drawn.push(shape("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
      drawn.push(text(LEFT - 6, y(value) + 4, figures.format(value), "tick value"));
    }
    for (const share of [1, 0.5, 0]) {
      const age = this.seconds * share;
      const place = share === 1 ? "tick" : share ? "tick middle" : "tick value";
      drawn.push(text(x(age), height - 4, age ? `${age} s ago` : "now", place));
    }
    this.series.forEach(({ values }, index) => {
      const newest = values.slice(-this.seconds);
      drawn.push(...(this.hasBars ? bars : lines)(newest, index, (at) => x(newest.length - at), y, step));
    });
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawing.replaceChildren(...drawn);
    const told = this.series.map(({ name, values }) => `${name} ${figures.format(values.at(-1) ?? 0)} ${this.unit}`);
    this.drawing.setAttribute("aria-label", `${this.label}; now ${told.join(", ")}; scale to ${figures.format(top)}`);
  }
}

function bars(values, index, x, y, step) {
  return values.map((value, at) => value && shape("rect", {
    class: `bar line-${index}`, x: x(at), y: y(value), width: Math.max(step - 1, 1), height: y(0) - y(value),
  })).filter(Boolean);
}

function lines(values, index, x, y, step) {
  let path = "";
  values.forEach((value, at) => {
    if (value === null) return;
    const isGap = at === 0 || values[at - 1] === null;
    path += `${isGap ? "M" : "L"}${(x(at) + step / 2).toFixed(1)} ${y(value).toFixed(1)}`;
    // A value between two gaps would leave nothing.
    if (isGap && (values[at + 1] ?? null) === null) path += "h1";
  });
  return path ? [shape("path", { class: `curve line-${index}`, d: path })] : [];
}

/** Fill a legend: what each colour stands for, with the newest value. */
export function legend(list, series, unit) {
  list.replaceChildren(...series.map(({ name, values }, index) => {
    const value = values.at(-1) ?? null;
    const key = shape("svg", { class: "key", viewBox: "0 0 18 8", "aria-hidden": "true" });
    key.append(shape("path", { class: `curve line-${index}`, d: "M0 4H18" }));
    return element("li", {}, key, `${name} `, element("strong", {}, value === null ? "–" : `${figures.format(value)} ${unit}`));
  }));
}

/**
 * Draw durations by name on one scale of powers of ten: a bar from the median to what 99 % did not exceed.
 *
 * @param {{name: string, median_ms: number, p99_ms: number, count: number}[]} rows
 */
export function ranges(drawing, rows) {
  const width = drawing.clientWidth;
  const names = Math.min(150, width * 0.36);
  if (!rows.length || width < 200) return;
  const [low, high] = [
    Math.floor(Math.log10(Math.max(Math.min(...rows.map((row) => row.median_ms)), 0.001))),
    Math.ceil(Math.log10(Math.max(...rows.map((row) => row.p99_ms), 0.01))),
  ];
  const x = (ms) => names + ((Math.log10(Math.max(ms, 10 ** low)) - low) / Math.max(high - low, 1)) * (width - names - 30);
  const [tall, bottom] = [22, rows.length * 22];
  const drawn = [];
  const each = Math.ceil((high - low) / ((width - names) / 60));
  for (let power = low; power <= high; power += 1) {
    drawn.push(shape("line", { class: "grid", x1: x(10 ** power), x2: x(10 ** power), y1: 0, y2: bottom }));
    if ((power - low) % each === 0) drawn.push(text(x(10 ** power), bottom + 15, duration(10 ** power), "tick middle"));
  }
  rows.forEach((row, index) => {
    const y = index * tall + tall / 2;
    const [from, to] = [x(row.median_ms), x(row.p99_ms)];
    drawn.push(text(0, y + 4, row.name, "name"));
    drawn.push(shape("rect", { class: "range", x: from, y: y - 5, width: Math.max(to - from, 2), height: 10 }));
    drawn.push(shape("rect", { class: "median", x: from - 1.5, y: y - 8, width: 3, height: 16 }));
  });
  drawing.setAttribute("viewBox", `0 0 ${width} ${bottom + 20}`);
  drawing.setAttribute("height", bottom + 20);
  drawing.replaceChildren(...drawn);
}

function duration(ms) {
  return ms >= 1000 ? `${ms / 1000} s` : ms >= 1 ? `${ms} ms` : `${Math.round(ms * 1000)} µs`;
}

function text(left, down, content, style) {
  const made = shape("text", { class: style, x: left, y: down });
  made.textContent = content;
  return made;
}
