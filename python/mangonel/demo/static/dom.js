// Elements from values. Text stays text: nothing is ever parsed as HTML.

/** Return an element with attributes and children; children that are strings become text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Return an SVG element with attributes. */
export function shape(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Return a table's row; a cell is a value, or [value, class], or a node. */
export function row(...cells) {
  return element("tr", {}, ...cells.map((cell) => {
    const [content, style] = Array.isArray(cell) ? cell : [cell];
    return element("td", style ? { class: style } : {}, content instanceof Node ? content : String(content));
  }));
}

export const token = document.querySelector('meta[name="csrf"]').content;
