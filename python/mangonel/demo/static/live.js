// The live page. Frames change a model of bounded size at once; the document is touched once per animation frame.
import { follow } from "./socket.js";

const ROWS = 100;
const SECONDS = 60;
const DELAYS = 200;

const numbers = new Intl.NumberFormat("en");
const money = new Intl.NumberFormat("en", { style: "currency", currency: "EUR" });
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/** Newest rows of one kind: what is shown, and what came since. */
class Table {
  constructor(kind, cells) {
    this.cells = cells;
    this.body = document.getElementById(`${kind}-rows`);
    this.figure = document.getElementById(`${kind}-total`);
    this.total = 0;
    this.fresh = [];
    this.isNew = false;
  }

  replace(total, rows) {
    this.total = total;
    this.fresh = rows.slice(-ROWS);
    this.isNew = true;
  }

  add(row) {
    this.total += 1;
    this.fresh.push(row);
    // What would have left the table before anybody saw it needs no row.
    if (this.fresh.length > 2 * ROWS) this.fresh.splice(0, ROWS);
  }

  render() {
    this.figure.textContent = numbers.format(this.total);
    if (this.isNew) this.body.replaceChildren();
    const made = document.createDocumentFragment();
    for (const row of this.fresh.slice(-ROWS).reverse()) {
      const line = document.createElement("tr");
      line.dataset.id = row.id;
      for (const [text, style] of this.cells(row)) {
        const cell = document.createElement("td");
        cell.textContent = text;
        if (style) cell.className = style;
        line.append(cell);
      }
      if (!this.isNew) line.className = "fresh";
      made.append(line);
    }
    this.body.prepend(made);
    while (this.body.rows.length > ROWS) this.body.lastElementChild.remove();
    this.fresh = [];
    this.isNew = false;
  }
}

const tables = {
  customer: new Table("customer", (row) => [[row.name], [row.city], [clock.format(row.at), "number"]]),
  order: new Table("order", (row) => [[row.item], [row.customer], [money.format(row.cents / 100), "number"]]),
};
const state = document.getElementById("state");
const chart = document.getElementById("chart");
const counts = new Array(SECONDS).fill(0);
let delays = [];
let isDue = false;

function take(frame) {
  const now = Date.now();
  if (frame.type === "state") {
    for (const [kind, table] of Object.entries(tables)) table.replace(frame.totals[kind], frame.rows[kind]);
  } else if (frame.type === "events") {
    for (const row of frame.events) {
      tables[row.kind].add(row);
      delays.push(now - row.at);
    }
    counts[SECONDS - 1] += frame.events.length;
    if (delays.length > DELAYS) delays = delays.slice(-DELAYS);
  }
  if (!isDue) {
    isDue = true;
    requestAnimationFrame(render);
  }
}

function render() {
  isDue = false;
  for (const table of Object.values(tables)) table.render();
}

function tick() {
  document.getElementById("rate").textContent = numbers.format(counts[SECONDS - 1]);
  if (delays.length) {
    const sorted = delays.toSorted((a, b) => a - b);
    const median = sorted[sorted.length >> 1];
    // Two clocks: what another machine wrote may seem to come from the future.
    document.getElementById("delay").textContent = median < 0 ? "–" : `${numbers.format(median)} ms`;
    delays = [];
  }
  draw();
  counts.shift();
  counts.push(0);
}

function draw() {
  const scale = devicePixelRatio;
  const width = chart.clientWidth * scale;
  const height = chart.clientHeight * scale;
  if (chart.width !== width || chart.height !== height) Object.assign(chart, { width, height });
  const context = chart.getContext("2d");
  const most = Math.max(...counts, 1);
  const step = width / SECONDS;
  context.clearRect(0, 0, width, height);
  context.fillStyle = getComputedStyle(chart).color;
  counts.forEach((count, second) => {
    const tall = (count / most) * height;
    context.fillRect(second * step, height - tall, Math.max(step - scale, 1), tall);
  });
}

follow("/live", {
  frame: take,
  state(name) {
    if (state.dataset.state === name) return;
    state.dataset.state = name;
    state.textContent = name;
  },
});
setInterval(tick, 1000);
addEventListener("themechange", draw);
addEventListener("resize", draw);
