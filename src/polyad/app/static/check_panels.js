// The classes to choose from, and the list of the points.

import { $, choice, el } from "./dom.js";

/** @typedef {import("./check_store.js").CheckStore} CheckStore */

/**
 * @param {CheckStore} store
 * @param {(value: number) => void} give
 */
export function choicePanel(store, give) {
  const box = $("choices");
  const buttons = () => /** @type {HTMLButtonElement[]} */ ([...box.children]);

  store.addEventListener("classes", () => {
    box.replaceChildren(...[...store.classes.values()].map((info, k) => {
      const key = k < 10 ? String((k + 1) % 10) : "";
      const swatch = el("i", { class: "swatch" });
      swatch.style.background = info.color;
      return el("button", {
        type: "button", data: { value: info.value }, onclick: () => give(info.value),
        title: `${info.name}${key ? ` (${key})` : ""}`,
      }, swatch, el("span", { class: "name" }, info.name), key ? el("kbd", {}, key) : null);
    }));
    update();
  });

  function update() {
    const answer = store.answers[store.current];
    if (!answer) return;
    for (const button of buttons()) {
      const value = Number(button.dataset.value);
      button.setAttribute("aria-pressed", String(answer.value === value));
      button.classList.toggle("on", value === store.active);
    }
    $("cannot").setAttribute("aria-pressed", String(answer.unsure));
    $("clear").disabled = store.isOpen(store.current) && !answer.note;
  }
  for (const kind of ["answers", "point", "choice"]) store.addEventListener(kind, update);
  store.addEventListener("choice", () => {
    const on = box.querySelector("button.on");
    if (box.scrollHeight > box.clientHeight) on?.scrollIntoView({ block: "nearest" });
  });
}

/**
 * @param {CheckStore} store
 * @param {(point: number) => void} go
 */
export function pointList(store, go) {
  const list = $("points");
  /** @type {"all" | "open" | "unsure"} */
  let shown = "all";
  /** @type {Map<number, HTMLButtonElement>} */
  const rows = new Map();
  const keeps = {
    all: () => true,
    open: (/** @type {number} */ k) => store.isOpen(k),
    unsure: (/** @type {number} */ k) => store.answers[k].unsure,
  };
  const set = choice({ all: $("list-all"), open: $("list-open"), unsure: $("list-unsure") }, (kind) => {
    shown = kind;
    set(kind);
    rebuild();
  });
  set(shown);

  /** @param {number} k */
  function fill(k) {
    const button = rows.get(k);
    if (!button) return;
    const { value, unsure, note } = store.answers[k];
    const info = store.classes.get(value);
    const said = unsure ? "cannot tell" : info?.name ?? "unchecked";
    const swatch = el("i", { class: info ? "swatch" : "swatch open" });
    if (info) swatch.style.background = info.color;
    button.replaceChildren(
      el("span", { class: "number" }, String(k + 1)), swatch, el("span", { class: "name" }, said),
      el("span", { class: "mark" }, note ? "note" : ""));
    button.title = note;
  }

  function rebuild() {
    rows.clear();
    const points = store.answers.map((_, k) => k).filter(keeps[shown]);
    const items = points.map((k) => {
      const button = el("button", { type: "button", onclick: () => go(k) });
      rows.set(k, button);
      fill(k);
      return el("li", {}, button);
    });
    list.replaceChildren(...items);
    $("points-empty").hidden = items.length > 0;
    mark();
  }

  function mark() {
    list.querySelector('[aria-current="true"]')?.removeAttribute("aria-current");
    const button = rows.get(store.current);
    if (!button) return;
    button.setAttribute("aria-current", "true");
    // Only the list scrolls, never the page with it.
    const item = /** @type {HTMLElement} */ (button.parentElement);
    const top = item.offsetTop - list.offsetTop;
    if (top < list.scrollTop || top + 30 > list.scrollTop + list.clientHeight) {
      list.scrollTop = top - list.clientHeight / 2;
    }
  }

  store.on("answers", ({ points }) => {
    // A list of some of the points stays as it is until another is chosen: rows must not jump away.
    if (points === null) rebuild();
    else for (const k of points) fill(k);
    const { done, unsure } = store, all = store.answers.length;
    $("points-note").textContent = `${done} of ${all} checked${unsure ? `, ${unsure} unsure` : ""}`;
    $("progress").setAttribute("aria-valuemax", String(all));
    $("progress").setAttribute("aria-valuenow", String(done));
    $("progress-done").style.width = `${(100 * done) / Math.max(all, 1)}%`;
  });
  store.addEventListener("point", mark);
}
