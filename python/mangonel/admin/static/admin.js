// Lists follow the changes of their documents, and references offer targets while one types. Pages work without both.

const table = document.querySelector("table[data-live]");
if (table) {
  const rows = table.tBodies[0];
  const source = new EventSource(table.dataset.live);
  source.onopen = () => { table.dataset.state = "live"; };
  source.onerror = () => { table.dataset.state = "reconnecting"; };
  source.addEventListener("change", (event) => show(JSON.parse(event.data)));

  const show = (change) => {
    let row = [...rows.rows].find((each) => each.dataset.mark === change.mark);
    if (change.operation === "delete") {
      row?.classList.add("gone");
      return;
    }
    if (!row) {
      // On a page that is searched or turned, a new document has no place.
      if (location.search || change.operation !== "insert") return;
      row = rows.insertRow(0);
      row.dataset.mark = change.mark;
    }
    row.className = "fresh";
    const link = document.createElement("a");
    link.href = change.link;
    link.textContent = change.texts[0];
    const cells = change.texts.map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    });
    cells[0].replaceChildren(link);
    row.replaceChildren(...cells);
  };
}

for (const input of document.querySelectorAll("input[data-find]")) {
  let waiting;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const answer = await fetch(`${input.dataset.find}?q=${encodeURIComponent(input.value)}`);
      if (!answer.ok) return;
      const options = (await answer.json()).map(({ id, name }) => {
        const option = document.createElement("option");
        option.value = id;
        option.label = name;
        return option;
      });
      input.list.replaceChildren(...options);
    }, 200);
  });
}
