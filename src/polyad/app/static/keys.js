// Everything the page can do, by key; the same table fills the help.

import { $, el } from "./dom.js";

const inField = (target) =>
  target.closest?.("input:not([type=range], [type=color], [type=file]), select, textarea");
const onButton = (target) => target.closest?.("button, a, summary, label, input");
const onSlider = (target) => target.closest?.("input[type=range]");
const SLIDES = /^(Arrow|Page|Home|End)/;

// rows: [keys, help, act, {release}]
export function bindKeys(rows) {
  const table = new Map();
  for (const [keys, , act, release] of rows) {
    for (const key of keys) table.set(key, { act, release });
  }
  const name = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);

  document.addEventListener("keydown", (event) => {
    const key = name(event);
    if (document.querySelector("dialog[open]")) return; // it has keys of its own
    if (inField(event.target) && key !== "Escape") return;
    if (onSlider(event.target) && SLIDES.test(key)) return;
    if (onButton(event.target) && (key === "Enter" || key === " ")) return;
    if (event.metaKey || event.ctrlKey) {
      if (key === "z") { event.preventDefault(); table.get(event.shiftKey ? "y" : "z").act(event); }
      if (key === "y") { event.preventDefault(); table.get("y").act(event); }
      return;
    }
    const row = table.get(key);
    if (!row || event.altKey) return;
    event.preventDefault();
    row.act(event);
  });
  document.addEventListener("keyup", (event) => table.get(name(event))?.release?.(event));
  window.addEventListener("blur", () => { for (const row of table.values()) row.release?.(); });

  const shown = { " ": "Space", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };
  $("key-list").replaceChildren(...rows.filter(([, help]) => help).flatMap(([keys, help]) => [
    el("dt", {}, ...keys.map((key) => el("kbd", {}, shown[key] ?? (key.length === 1 ? key.toUpperCase() : key)))),
    el("dd", {}, help),
  ]));
}
