// The live page. Frames change a model of bounded size at once; the document is touched once per animation frame.
import { Plot } from "./chart.js";
import { token } from "./dom.js";
import { follow } from "./socket.js";

const ROWS = 100;
const SECONDS = 60;
const DELAYS = 200;

const numbers = new Intl.NumberFormat("en");
const money = new Intl.NumberFormat("en", { style: "currency", currency: "EUR" });
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/** The newest rows of one kind: what is to be shown, and the lines of the document that show it so far. */
class Table {
  constructor(kind, cells) {
    this.cells = cells;
    this.body = document.getElementById(`${kind}-rows`);
    this.figure = document.getElementById(`${kind}-total`);
    this.total = 0;
    this.rows = new Map(); // by id, the newest last
    this.lines = new Map();
    this.changed = new Set();
    this.isNew = false;
  }

  replace(total, rows) {
    this.total = total;
    this.rows = new Map(rows.map((row) => [row.id, row]));
    this.isNew = true;
  }

  take({ op, id, ...values }) {
    if (op === "insert") {
      this.total += 1;
      this.rows.set(id, values);
      // What leaves the table before anybody saw it needs no line.
      if (this.rows.size > ROWS) this.rows.delete(this.rows.keys().next().value);
    } else if (op === "delete") {
      this.total -= 1;
      this.rows.delete(id);
    } else if (this.rows.has(id)) {
      Object.assign(this.rows.get(id), values);
      this.changed.add(id);
    }
  }

  render() {
    this.figure.textContent = numbers.format(this.total);
    if (this.isNew) {
      this.body.replaceChildren();
      this.lines.clear();
    }
    for (const [id, line] of this.lines) {
      if (this.rows.has(id)) continue;
      line.remove();
      this.lines.delete(id);
    }
    const made = document.createDocumentFragment();
    for (const [id, row] of this.rows) {
      if (this.lines.has(id)) continue;
      const line = document.createElement("tr");
      line.dataset.id = id;
      this.fill(line, row);
      if (!this.isNew) line.className = "fresh";
      this.lines.set(id, line);
      made.prepend(line);
      this.changed.delete(id);
    }
    this.body.prepend(made);
    for (const id of this.changed) {
      const line = this.lines.get(id);
      if (!line) continue;
      this.fill(line, this.rows.get(id));
      // Another animation of the same look: one that is running would not begin again.
      line.className = line.className === "changed" ? "changed-again" : "changed";
    }
    this.changed.clear();
    this.isNew = false;
  }

  fill(line, row) {
    line.replaceChildren(...this.cells(row).map(([text, style]) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      if (style) cell.className = style;
      return cell;
    }));
  }
}

const tables = {
  customer: new Table("customer", (row) => [[row.name], [row.city], [clock.format(row.at), "number"]]),
  order: new Table("order", (row) => [
    [row.item],
    [row.customer],
    [row.state ?? "new", `order ${row.state}`],
    [money.format(row.cents / 100), "number"],
  ]),
};
/** The shop numbers its customers without a gap, so every number that comes must be one more than the last. */
const numbering = {
  last: null,
  missed: 0,
  doubled: 0,
  begin(rows) {
    const known = rows.map((row) => row.n).filter(Boolean);
    this.last = known.length ? Math.max(...known) : null;
  },
  take(number) {
    // Another run of the shop begins far above the one before.
    const isNext = this.last === null || number - this.last > 100_000;
    if (!isNext && number <= this.last) this.doubled += 1;
    else if (!isNext) this.missed += number - this.last - 1;
    this.last = isNext ? number : Math.max(number, this.last);
  },
};
const state = document.getElementById("state");
const chart = new Plot(document.getElementById("chart"), { unit: "events/s", seconds: SECONDS, least: 10, hasBars: true });
const counts = new Array(SECONDS).fill(0);
const bands = new Array(SECONDS).fill(false);
let delays = [];
let isDue = false;

function take(frame) {
  const now = Date.now();
  if (frame.type === "state") {
    for (const [kind, table] of Object.entries(tables)) table.replace(frame.totals[kind], frame.rows[kind]);
    numbering.begin(frame.rows.customer);
    counts.splice(0, SECONDS, ...frame.counts);
    draw();
  } else if (frame.type === "events") {
    for (const event of frame.events) {
      tables[event.kind].take(event);
      if (event.op === "insert") delays.push(now - event.at);
      if (event.op === "insert" && event.n) numbering.take(event.n);
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
  document.getElementById("missed").textContent = numbers.format(numbering.missed);
  document.getElementById("doubled").textContent = numbers.format(numbering.doubled);
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
  bands.shift();
  bands.push(Boolean(elections?.electing));
}

function draw() {
  document.getElementById("highest").textContent = numbers.format(Math.max(...counts));
  chart.show([{ name: "Events", values: counts }], bands);
}

let line = "connecting";
let elections = null;
let toldUntil = 0;

function badge() {
  let text = line;
  let name = line;
  if (line === "live" && elections?.electing) {
    name = "electing";
    text = "electing…";
  } else if (line === "live" && Date.now() < toldUntil) {
    text = `reconnected after ${elections.last_s.toFixed(1)} s`;
  }
  if (state.textContent === text) return;
  state.dataset.state = name;
  state.textContent = text;
}

follow("/live", {
  frame: take,
  state(name) {
    line = name;
    badge();
  },
});
follow("/status/live", {
  frame({ report }) {
    if (elections && report.elections.count > elections.count) toldUntil = Date.now() + 10_000;
    elections = report.elections;
    if (elections.electing) bands[SECONDS - 1] = true;
    badge();
  },
  state() {},
});

async function order(path) {
  const answer = await fetch(path, { method: "POST", headers: { "X-CSRF-Token": token, Accept: "application/json" } });
  return [answer.ok, await answer.json()];
}

const told = document.getElementById("told");
for (const [what, past] of [["kill", "killed"], ["restart", "runs again"]]) {
  document.getElementById(what)?.addEventListener("click", async () => {
    const [isDone, answer] = await order(`/api/primary/${what}`);
    told.textContent = !isDone ? answer.error : answer[what] ? `${answer[what]} ${past}.` : "Every member runs.";
  });
}
const speed = document.getElementById("speed");
speed?.addEventListener("input", () => { document.getElementById("speed-told").textContent = speed.value; });
speed?.addEventListener("change", () => order(`/api/rate?rate=${speed.value}`));
setInterval(tick, 1000);
