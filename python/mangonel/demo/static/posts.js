// The posts page: words and a place go to the API, a page of posts and a map of places come back.
import { element, shape } from "./dom.js";
import "./page.js";

const PAGE = 20;
// What the map shows, in degrees, and in the units of its drawing.
const [WEST, EAST, SOUTH, NORTH] = [-25, 36, 34, 71.5];
const [WIDE, HIGH] = [600, 620];
const DEGREE_KM = 111.2;

const at = (id) => document.getElementById(id);
const dates = new Intl.DateTimeFormat("en", { dateStyle: "medium" });
const numbers = new Intl.NumberFormat("en");

let place = null;
let last = null;
let asked = 0;

// Mercator: a circle on the ground stays one on the map, though it grows to the north.
const rise = (lat) => Math.log(Math.tan(Math.PI / 4 + (lat * Math.PI) / 360));
const [LOW, TOP] = [rise(SOUTH), rise(NORTH)];
const x = (lon) => ((lon - WEST) / (EAST - WEST)) * WIDE;
const y = (lat) => ((TOP - rise(lat)) / (TOP - LOW)) * HIGH;
const lonAt = (left) => WEST + (left / WIDE) * (EAST - WEST);
const latAt = (down) => (Math.atan(Math.exp(TOP - (down / HIGH) * (TOP - LOW))) * 360) / Math.PI - 90;

function grid() {
  const lines = [];
  for (let lon = -20; lon <= 30; lon += 10) {
    lines.push(shape("line", { class: "grid", x1: x(lon), x2: x(lon), y1: 0, y2: HIGH }));
    lines.push(label(x(lon) + 3, HIGH - 5, lon < 0 ? `${-lon}° W` : `${lon}° E`));
  }
  for (let lat = 40; lat <= 70; lat += 10) {
    lines.push(shape("line", { class: "grid", x1: 0, x2: WIDE, y1: y(lat), y2: y(lat) }));
    lines.push(label(3, y(lat) - 4, `${lat}° N`));
  }
  const cities = [...at("city").options]
    .map((option) => [option.textContent, ...option.value.split(",").map(Number)])
    .filter(([, , lat]) => Number.isFinite(lat))
    .map(([name, lon, lat]) => ({ name, left: x(lon), down: y(lat) }));
  return [...lines, ...names(cities)];
}

// Where a name may stand beside its place, the first that is free: across, down, how much of it lies to the left, style.
const SIDES = [[9, 4, 0, "city"], [-9, 4, 1, "city before"], [0, -10, 0.5, "city over"], [0, 20, 0.5, "city over"]];
const LETTER = 9.5;

function names(cities) {
  const taken = cities.map(({ left, down }) => [left - 6, left + 6, down - 6, down + 6]);
  return cities.map(({ name, left, down }) => {
    const long = name.length * LETTER;
    const ways = SIDES.map(([across, below, before, style]) => {
      const [start, base] = [left + across - before * long, down + below];
      return { across, below, style, box: [start, start + long, base - 13, base + 3] };
    });
    const isFree = ({ box: [west, east, top, foot] }) => west >= 0 && east <= WIDE &&
      taken.every((other) => east <= other[0] || other[1] <= west || foot <= other[2] || other[3] <= top);
    const way = ways.find(isFree) ?? ways[0];
    taken.push(way.box);
    return label(left + way.across, down + way.below, name, way.style);
  });
}

function label(left, down, text, style = "scale") {
  const made = shape("text", { class: style, x: left, y: down });
  made.textContent = text;
  return made;
}

function parameters() {
  const wanted = new URLSearchParams();
  if (at("text").value.trim()) wanted.set("text", at("text").value.trim());
  if (place) for (const [name, value] of Object.entries({ ...place, km: at("km").value })) wanted.set(name, value);
  return wanted;
}

function draw(places) {
  const drawn = grid();
  if (place) {
    const km = Number(at("km").value);
    const radius = ((km / DEGREE_KM / Math.cos((place.lat * Math.PI) / 180)) / (EAST - WEST)) * WIDE;
    drawn.push(shape("circle", { class: "around", cx: x(place.lon), cy: y(place.lat), r: radius }));
  }
  for (const post of places) {
    const [lon, lat] = post.place.coordinates;
    drawn.push(shape("circle", { class: "post", cx: x(lon).toFixed(1), cy: y(lat).toFixed(1), r: 2.6 }));
  }
  at("map").replaceChildren(...drawn);
  at("found").textContent = `${numbers.format(places.length)} ${places.length === 1 ? "post" : "posts"} found.`;
}

async function page(isFirst) {
  const wanted = parameters();
  const number = ++asked;
  wanted.set("size", PAGE);
  if (!isFirst) wanted.set("after", last);
  const answers = await Promise.all([
    fetch(`/api/posts?${wanted}`),
    isFirst ? fetch(`/api/places?${parameters()}`) : null,
  ]);
  if (number !== asked || !answers[0].ok) return; // another page was asked for meanwhile
  const posts = await answers[0].json();
  if (answers[1]) draw(await answers[1].json());
  if (isFirst) at("results").replaceChildren();
  for (const post of posts) {
    at("results").append(element("li", {},
      element("h3", {}, post.title),
      element("p", {}, post.body),
      element("p", { class: "hint" }, `${post.author}, ${dates.format(new Date(post.written))}`),
    ));
  }
  last = posts.at(-1)?.id ?? last;
  at("more").hidden = posts.length < PAGE;
}

at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  page(true);
});
at("city").addEventListener("change", () => {
  if (at("city").value === "point") return;
  const [lon, lat] = at("city").value.split(",").map(Number);
  place = at("city").value ? { lon, lat } : null;
  page(true);
});
at("km").addEventListener("change", () => page(true));
at("more").addEventListener("click", () => page(false));
at("map").addEventListener("click", (event) => {
  const box = at("map").getBoundingClientRect();
  const [left, down] = [((event.clientX - box.left) / box.width) * WIDE, ((event.clientY - box.top) / box.height) * HIGH];
  place = { lon: Number(lonAt(left).toFixed(3)), lat: Number(latAt(down).toFixed(3)) };
  at("city").value = "point";
  page(true);
});
page(true);
