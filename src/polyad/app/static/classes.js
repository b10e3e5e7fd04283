// The list of classes: choose, rename, recolor, delete; how many labels, what share of the map.

import { $, el, percent, toast } from "./dom.js";

/**
 * @typedef {import("./store.js").Store} Store
 * @typedef {{value: number, field: HTMLInputElement, back: string | null}} Editing
 */

/** @param {Store} store */
export function classList(store) {
  const list = $("classes");
  const items = () => /** @type {HTMLLIElement[]} */ ([...list.children]);
  /** @type {Editing | null} */
  let editing = null; // the class being renamed, and where the focus goes then

  /** @returns {HTMLLIElement | null} */
  const itemOf = (/** @type {number} */ value) => list.querySelector(`li[data-value="${value}"]`);
  /** @returns {HTMLElement | null | undefined} */
  const partOf = (/** @type {number} */ value, /** @type {string | null} */ part) =>
    itemOf(value)?.querySelector(`[data-part="${part}"]`);

  /**
   * @param {ClassInfo} info
   * @param {number} position
   */
  function row(info, position) {
    const key = keyOf(position);
    /** @type {(node: HTMLElement, part: string, label: string) => HTMLElement} */
    const named = (node, part, label) => {
      node.dataset.part = part;
      node.setAttribute("aria-label", label);
      return node;
    };
    const choose = el("button", {
      class: "key", type: "button", title: `Label with ${info.name}${key ? ` (${key})` : ""}`,
    }, key || "•");
    /** @type {HTMLInputElement} */
    const swatch = el("input", {
      type: "color", value: info.color.toLowerCase(), title: "Color",
      onchange: () => store.do({ do: "change", class: info.value, color: swatch.value }),
    });
    const name = el("span", {
      class: "name", title: info.name, ondblclick: () => rename(info.value),
    }, ...breakable(info.name));
    const pencil = el("button", {
      class: "icon quiet pencil", type: "button", title: "Rename (F2)",
      onclick: (/** @type {MouseEvent} */ e) => rename(info.value, { back: e.detail ? null : "rename" }),
    }, "✎");
    const remove = el("button", {
      class: "icon quiet remove", type: "button", title: "Delete the class and its labels",
      onclick: () => drop(info),
    }, "×");
    return el("li", {
      data: { value: info.value },
      onclick: (/** @type {MouseEvent} */ e) => {
        if (/** @type {Element} */ (e.target).closest("input, .quiet")) return;
        store.choose(info.value);
        if (e.detail) $("view").focus({ preventScroll: true }); // the next key is for the scene
      },
    },
    named(choose, "choose", `${key ? `${key}, label` : "Label"} with ${info.name}`), named(swatch, "color", `Color of ${info.name}`), name,
    el("span", { class: "count", title: "labels" }), el("span", { class: "share", title: "share of the map" }),
    named(pencil, "rename", `Rename ${info.name}`), named(remove, "delete", `Delete ${info.name}`),
    el("i", { class: "meter" }));
  }

  /** @param {ClassInfo} info */
  async function drop(info) {
    const count = [...store.labels.values()].filter((value) => value === info.value).length;
    const change = await store.do({ do: "delete", class: info.value });
    if (!change) return;
    const what = count ? `${info.name} and its ${count} label${count === 1 ? "" : "s"}` : info.name;
    toast(`${what} deleted; undo (Z) brings it back`, "fine");
  }

  // -- renaming ---------------------------------------------------------------------------------

  /**
   * @param {number} value
   * @param {{text?: string, back?: string | null, caret?: [number | null, number | null]}} how
   */
  function rename(value = store.active, { text, back = null, caret } = {}) {
    const info = store.classes.get(value);
    if (!info || editing?.value === value) return;
    if (editing) end(true);
    const field = el("input", {
      type: "text", class: "rename", value: text ?? info.name, maxLength: 80,
      onblur: () => end(true, false),
      onkeydown: (/** @type {KeyboardEvent} */ e) => {
        e.stopPropagation(); // Escape ends the renaming and nothing else
        if (e.key === "Enter" || e.key === "Escape") { e.preventDefault(); end(e.key === "Enter"); }
      },
    });
    field.setAttribute("aria-label", `Name of ${info.name}`);
    editing = { value, field, back };
    itemOf(value)?.querySelector(".name")?.replaceWith(field);
    field.focus();
    if (caret) field.setSelectionRange(...caret);
    else field.select();
  }

  /** @param {boolean} save */
  async function end(save, refocus = true) {
    if (!editing) return;
    const { value, field, back } = editing;
    editing = null; // first: taking the field away blurs it
    const old = store.classes.get(value)?.name ?? "";
    const text = field.value;
    rebuild();
    if (refocus) (partOf(value, back) ?? $("view")).focus({ preventScroll: true });
    if (!save || text === old) return;
    const done = await store.do({ do: "change", class: value, name: text });
    if (!done) rename(value, { text, back }); // refused: what was typed stays
  }

  // -- the list ---------------------------------------------------------------------------------

  // The row that has the focus, and which part of it.
  function focused() {
    const active = /** @type {HTMLElement | null} */ (document.activeElement);
    /** @type {HTMLLIElement | null | undefined} */
    const item = active?.closest("#classes li");
    return { item, part: active?.dataset.part ?? null };
  }

  function rebuild() {
    const { item, part } = focused();
    /** @type {Editing & {text: string, caret: [number | null, number | null]} | null} */
    const kept = editing && { ...editing, text: editing.field.value,
      caret: [editing.field.selectionStart, editing.field.selectionEnd] };
    editing = null;
    list.replaceChildren(...[...store.classes.values()].map(row));
    if (kept && store.classes.has(kept.value)) rename(kept.value, kept);
    else if (item && part) partOf(Number(item.dataset.value), part)?.focus();
    update();
  }

  function update() {
    /** @type {Map<number, number>} */
    const counts = new Map();
    for (const value of store.labels.values()) counts.set(value, (counts.get(value) ?? 0) + 1);
    /** @type {Record<string, number>} */
    const shares = store.map.stage === "none" ? {} : store.map.shares ?? {};
    for (const item of items()) {
      const value = Number(item.dataset.value);
      const share = shares[value];
      const chosen = value === store.active && !store.erasing;
      item.classList.toggle("on", chosen);
      const at = (/** @type {string} */ part) => /** @type {HTMLElement} */ (item.querySelector(part));
      at(".key").setAttribute("aria-pressed", String(chosen));
      at(".count").textContent = String(counts.get(value) ?? 0);
      at(".share").textContent = share == null ? "" : percent(share, 0);
      const meter = at(".meter");
      meter.style.width = `${100 * (share ?? 0)}%`;
      meter.style.background = store.classes.get(value)?.color ?? "none";
    }
    const total = store.labels.size;
    $("label-count").textContent = `${total} label${total === 1 ? "" : "s"}`;
    more();
  }

  // Says how many classes lie above and below what is seen of the list.
  function more() {
    const [top, bottom] = [list.scrollTop, list.scrollTop + list.clientHeight];
    const middles = items().map((item) => item.offsetTop + item.offsetHeight / 2);
    const box = /** @type {HTMLElement} */ (list.parentElement);
    box.dataset.above = String(middles.filter((at) => at < top).length);
    box.dataset.below = String(middles.filter((at) => at > bottom).length);
  }

  $("add-class").addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = $("new-class");
    const name = field.value.trim();
    if (!name) { field.focus(); return; }
    const change = await store.do({ do: "add", name });
    if (!change) return;
    field.value = "";
    store.choose(change.classes[0].value);
  });

  list.addEventListener("scroll", more);
  new ResizeObserver(more).observe(list);
  store.addEventListener("classes", rebuild);
  for (const kind of ["labels", "map", "choice"]) store.addEventListener(kind, update);
  store.addEventListener("choice", () => {
    // Only the list scrolls, never the page with it.
    /** @type {HTMLLIElement | null} */
    const on = list.querySelector("li.on");
    if (!on || list.scrollHeight <= list.clientHeight) return;
    const top = on.offsetTop;
    if (top < list.scrollTop) list.scrollTop = top;
    const under = top + on.offsetHeight - list.clientHeight;
    if (under > list.scrollTop) list.scrollTop = under;
  });

  // The class of the row that has the focus, else the chosen one.
  return { rename: () => {
    const { item, part } = focused();
    if (item) rename(Number(item.dataset.value), { back: part });
    else rename();
  } };
}

// Number keys choose the first ten classes.
const keyOf = (/** @type {number} */ position) => (position < 9 ? String(position + 1) : position === 9 ? "0" : "");

// A long name may go on in the next line after an underscore, as it may after a hyphen.
const breakable = (/** @type {string} */ name) => name.split(/(?<=_)/).flatMap((piece, k) => (k ? [el("wbr"), piece] : [piece]));
