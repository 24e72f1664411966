// The files page: a list, an upload with progress, downloads by plain links.
import { element, row, token } from "./dom.js";
import "./page.js";

const at = (id) => document.getElementById(id);
const dates = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });

function size(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  let power = 0;
  while (bytes >= 1000 && power < units.length - 1) {
    bytes /= 1000;
    power += 1;
  }
  return `${bytes.toFixed(power && bytes < 100 ? 1 : 0)} ${units[power]}`;
}

async function list() {
  const answer = await fetch("/api/files");
  if (!answer.ok) return;
  const files = await answer.json();
  at("none").hidden = files.length > 0;
  at("files").replaceChildren(...files.map((file) => {
    const link = element("a", { href: `/files/${file._id}`, download: file.filename }, file.filename);
    const remove = element("button", { type: "button", "aria-label": `Remove ${file.filename}` }, "Remove");
    remove.addEventListener("click", async () => {
      await fetch(`/api/files/${file._id}`, { method: "DELETE", headers: { "X-CSRF-Token": token } });
      await list();
    });
    return row(link, [size(file.length), "number"], dates.format(new Date(file.uploadDate)), file.metadata?.by ?? "–", remove);
  }));
}

function upload(file) {
  const request = new XMLHttpRequest();
  const began = performance.now();
  const done = (text) => {
    at("progress").hidden = true;
    at("told").textContent = text;
    list();
  };
  request.open("PUT", `/api/files/${encodeURIComponent(file.name)}`);
  request.setRequestHeader("X-CSRF-Token", token);
  request.setRequestHeader("Accept", "application/json");
  if (file.type) request.setRequestHeader("Content-Type", file.type);
  request.upload.addEventListener("progress", (event) => {
    const seconds = (performance.now() - began) / 1000;
    at("bar").value = event.loaded / event.total;
    at("told").textContent =
      `${file.name}: ${size(event.loaded)} of ${size(event.total)}, ${size(event.loaded / seconds)} a second`;
  });
  request.addEventListener("load", () => {
    done(request.status === 201 ? `${file.name} is stored.` : `${file.name} was refused: ${request.statusText}`);
    if (request.status === 201) at("upload").reset();
  });
  request.addEventListener("error", () => done(`${file.name} could not be sent: the line broke.`));
  request.addEventListener("abort", () => done(`${file.name} was not stored.`));
  at("cancel").onclick = () => request.abort();
  at("bar").value = 0;
  at("progress").hidden = false;
  request.send(file);
}

at("upload").addEventListener("submit", (event) => {
  event.preventDefault();
  upload(at("file").files[0]);
});
list();
