// Everything the page can do, by key; the same table fills the help.

import { $, el } from "./dom.js";

/**
 * @typedef {(event: KeyboardEvent) => unknown} Act
 * @typedef {[keys: string[], help: string, act: Act, release?: () => void]} Row
 */

const within = (/** @type {EventTarget | null} */ target, /** @type {string} */ selector) =>
  target instanceof Element && target.closest(selector);
const FIELD = "input:not([type=range], [type=color], [type=file]), select, textarea";
const BUTTON = "button, a, summary, label, input";
const SLIDER = "input[type=range]";
const SLIDES = /^(Arrow|Page|Home|End)/;

/** @param {Row[]} rows */
export function bindKeys(rows) {
  /** @type {Map<string, {act: Act, release?: () => void}>} */
  const table = new Map();
  for (const [keys, , act, release] of rows) {
    for (const key of keys) table.set(key, { act, release });
  }
  const name = (/** @type {KeyboardEvent} */ event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);

  document.addEventListener("keydown", (event) => {
    const key = name(event);
    if (document.querySelector("dialog[open]")) return; // it has keys of its own
    if (within(event.target, FIELD) && key !== "Escape") return;
    if (within(event.target, SLIDER) && SLIDES.test(key)) return;
    if (within(event.target, BUTTON) && (key === "Enter" || key === " ")) return;
    if (event.metaKey || event.ctrlKey) {
      if (key === "z") { event.preventDefault(); table.get(event.shiftKey ? "y" : "z")?.act(event); }
      if (key === "y") { event.preventDefault(); table.get("y")?.act(event); }
      return;
    }
    const row = table.get(key);
    if (!row || event.altKey) return;
    event.preventDefault();
    row.act(event);
  });
  document.addEventListener("keyup", (event) => table.get(name(event))?.release?.());
  window.addEventListener("blur", () => { for (const row of table.values()) row.release?.(); });

  /** @type {Record<string, string>} */
  const shown = { " ": "Space", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };
  $("key-list").replaceChildren(...rows.filter(([, help]) => help).flatMap(([keys, help]) => [
    el("dt", {}, ...keys.map((key) => el("kbd", {}, shown[key] ?? (key.length === 1 ? key.toUpperCase() : key)))),
    el("dd", {}, help),
  ]));
}
