// The status page: a report twice a second, the last two minutes as plots.
import { Plot, legend, ranges } from "./chart.js";
import { row } from "./dom.js";
import { follow } from "./socket.js";

const SECONDS = 120;
const COMMANDS = 10;
const numbers = new Intl.NumberFormat("en");
const at = (id) => document.getElementById(id);
const number = (value) => [value === null ? "–" : numbers.format(value), "number"];
const milliseconds = (value) => [value === null ? "–" : `${value.toFixed(2)} ms`, "number"];

// Id of a plot: its unit, the least end of its scale, and what it shows of the samples.
const PLOTS = {
  "events-plot": ["events/s", 10, (samples) => [of(samples, "events", "Events")]],
  "traffic-plot": ["per s", 10, (samples) => [of(samples, "commands", "Commands"), of(samples, "requests", "Requests")]],
  "trip-plot": ["ms", 1, (samples) => byServer(samples, "trips")],
  "pool-plot": ["connections", 2, (samples) => byServer(samples, "used")],
};
const plots = Object.entries(PLOTS).map(([id, [unit, least, series]]) => {
  const plot = new Plot(at(id), { unit, seconds: SECONDS, least });
  return { plot, series, list: at(`${id}-legend`) };
});
let samples = [];
let commands = [];

function of(samples, key, name) {
  return { name, values: samples.map((sample) => sample[key] ?? null) };
}

function byServer(samples, key) {
  const addresses = Object.keys(samples.at(-1)?.[key] ?? {}).sort();
  return addresses.map((address) => ({ name: address, values: samples.map((sample) => sample[key][address] ?? null) }));
}

function draw() {
  const bands = samples.map((sample) => sample.electing);
  for (const { plot, series, list } of plots) {
    const shown = series(samples);
    plot.show(shown, bands);
    legend(list, shown, plot.unit);
  }
}

function uptime(seconds) {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

function show(report) {
  at("browsers").textContent = numbers.format(report.feed.browsers);
  at("events").textContent = numbers.format(report.feed.events);
  at("requests").textContent = `${report.requests.median_ms.toFixed(1)} ms`;
  at("uptime").textContent = uptime(report.uptime);
  const none = { open: 0, used: 0, cleared: 0 };
  at("servers").replaceChildren(...Object.entries(report.servers).map(([address, server]) => {
    const pool = report.pools.servers[address] ?? none;
    return row(address, server.type, milliseconds(server.rtt_ms), number(pool.open), number(pool.used), number(pool.cleared));
  }));
  const waits = report.pools.check_out;
  at("check-out").textContent =
    `${numbers.format(waits.count)} check-outs, median ${waits.median_ms.toFixed(3)} ms, 99 % within ${waits.p99_ms.toFixed(3)} ms.`;
  const counts = [
    ...Object.entries(report.feed).map(([name, count]) => [`feed: ${name}`, count]),
    ...Object.entries(report.requests.statuses).map(([name, count]) => [`requests: ${name}`, count]),
    ...Object.entries(report.sessions).map(([name, count]) => [`sessions: ${name}`, count]),
  ];
  at("counts").replaceChildren(...counts.map(([name, count]) => row(name, number(count))));
  commands = report.commands;
  ranges(at("commands-plot"), commands.slice(0, COMMANDS));
  at("commands").replaceChildren(...commands.map((command) => row(
    command.name, number(command.count), number(command.failed),
    milliseconds(command.median_ms), milliseconds(command.p99_ms),
  )));
}

follow("/status/live", {
  frame({ report, history, begins }) {
    if (begins) samples = [];
    samples = [...samples, ...history].slice(-SECONDS);
    if (history.length) draw();
    show(report);
  },
  state(name) {
    at("state").dataset.state = name;
    at("state").textContent = name;
  },
});
addEventListener("resize", () => ranges(at("commands-plot"), commands.slice(0, COMMANDS)));
