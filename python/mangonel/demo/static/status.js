// The status page: one report a second, shown as it is.
import { row } from "./dom.js";
import { follow } from "./socket.js";

const numbers = new Intl.NumberFormat("en");
const at = (id) => document.getElementById(id);
const number = (value) => [value === null ? "–" : numbers.format(value), "number"];
const milliseconds = (value) => [value === null ? "–" : `${value.toFixed(2)} ms`, "number"];

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
  at("commands").replaceChildren(...report.commands.map((command) => row(
    command.name, number(command.count), number(command.failed),
    milliseconds(command.median_ms), milliseconds(command.p99_ms),
  )));
}

follow("/status/live", {
  frame(frame) {
    show(frame.report);
  },
  state(name) {
    at("state").dataset.state = name;
    at("state").textContent = name;
  },
});
