// The list of classes: choose, rename, recolour, delete; how many labels, what share of the map.

import { $, el, percent, toast } from "./dom.js";

export function classList(store) {
  const list = $("classes");
  let editing = null; // {value, field, back}: the class being renamed, and where the focus goes then

  const itemOf = (value) => list.querySelector(`li[data-value="${Number(value)}"]`);

  function row(info, position) {
    const key = keyOf(position);
    const named = (node, part, label) => {
      node.dataset.part = part;
      node.setAttribute("aria-label", label);
      return node;
    };
    const choose = el("button", {
      class: "key", type: "button", title: `Label with ${info.name}${key ? ` (${key})` : ""}`,
    }, key || "•");
    const swatch = el("input", {
      type: "color", value: info.color.toLowerCase(), title: "Colour",
      onchange: (e) => store.do({ do: "change", class: info.value, color: e.target.value }),
    });
    const name = el("span", {
      class: "name", title: info.name, ondblclick: () => rename(info.value),
    }, ...breakable(info.name));
    const pencil = el("button", {
      class: "icon quiet pencil", type: "button", title: "Rename (F2)",
      onclick: (e) => rename(info.value, { back: e.detail ? null : "rename" }),
    }, "✎");
    const remove = el("button", {
      class: "icon quiet remove", type: "button", title: "Delete the class and its labels",
      onclick: () => drop(info),
    }, "×");
    return el("li", {
      data: { value: info.value },
      onclick: (e) => {
        if (e.target.closest("input, .quiet")) return;
        store.choose(info.value);
        if (e.detail) $("view").focus({ preventScroll: true }); // the next key is for the scene
      },
    },
    named(choose, "choose", `Choose ${info.name}`), named(swatch, "colour", `Colour of ${info.name}`), name,
    el("span", { class: "count", title: "labels" }), el("span", { class: "share", title: "share of the map" }),
    named(pencil, "rename", `Rename ${info.name}`), named(remove, "delete", `Delete ${info.name}`),
    el("i", { class: "meter" }));
  }

  async function drop(info) {
    const count = [...store.labels.values()].filter((value) => value === info.value).length;
    const change = await store.do({ do: "delete", class: info.value });
    if (!change) return;
    const what = count ? `${info.name} and its ${count} label${count === 1 ? "" : "s"}` : info.name;
    toast(`${what} deleted; undo (Z) brings it back`, "fine");
  }

  // -- renaming ---------------------------------------------------------------------------------

  function rename(value = store.active, { text = null, back = null, caret = null } = {}) {
    const info = store.classes.get(value);
    if (!info || editing?.value === value) return;
    if (editing) end(true);
    const field = el("input", {
      type: "text", class: "rename", value: text ?? info.name, maxLength: 80,
      onblur: () => end(true, false),
      onkeydown: (e) => {
        e.stopPropagation(); // Escape ends the renaming and nothing else
        if (e.key === "Enter" || e.key === "Escape") { e.preventDefault(); end(e.key === "Enter"); }
      },
    });
    field.setAttribute("aria-label", `Name of ${info.name}`);
    editing = { value, field, back };
    itemOf(value).querySelector(".name").replaceWith(field);
    field.focus();
    if (caret) field.setSelectionRange(...caret);
    else field.select();
  }

  async function end(save, refocus = true) {
    if (!editing) return;
    const { value, field, back } = editing;
    editing = null; // first: taking the field away blurs it
    const old = store.classes.get(value)?.name ?? "";
    const text = field.value;
    rebuild();
    if (refocus) (itemOf(value)?.querySelector(`[data-part="${back}"]`) ?? $("view")).focus({ preventScroll: true });
    if (!save || text === old) return;
    const done = await store.do({ do: "change", class: value, name: text });
    if (!done) rename(value, { text, back }); // refused: what was typed stays
  }

  // -- the list ---------------------------------------------------------------------------------

  function rebuild() {
    const active = document.activeElement;
    const value = active?.closest?.("#classes li")?.dataset.value;
    const part = active?.dataset?.part;
    const kept = editing && { ...editing, text: editing.field.value,
      caret: [editing.field.selectionStart, editing.field.selectionEnd] };
    editing = null;
    list.replaceChildren(...[...store.classes.values()].map(row));
    if (kept && store.classes.has(kept.value)) rename(kept.value, kept);
    else if (part) itemOf(value)?.querySelector(`[data-part="${part}"]`)?.focus();
    update();
  }

  function update() {
    const counts = new Map();
    for (const value of store.labels.values()) counts.set(value, (counts.get(value) ?? 0) + 1);
    const shares = store.map.stage === "none" ? {} : store.map.shares ?? {};
    for (const item of list.children) {
      const value = Number(item.dataset.value);
      const share = shares[value];
      const chosen = value === store.active && !store.erasing;
      item.classList.toggle("on", chosen);
      item.firstChild.setAttribute("aria-pressed", String(chosen));
      item.querySelector(".count").textContent = counts.get(value) ?? 0;
      item.querySelector(".share").textContent = share == null ? "" : percent(share, 0);
      const meter = item.querySelector(".meter");
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
    const middles = [...list.children].map((item) => item.offsetTop + item.offsetHeight / 2);
    const box = list.parentElement;
    box.dataset.above = middles.filter((at) => at < top).length;
    box.dataset.below = middles.filter((at) => at > bottom).length;
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
    const on = list.querySelector("li.on");
    if (!on || list.scrollHeight <= list.clientHeight) return;
    const top = on.offsetTop;
    if (top < list.scrollTop) list.scrollTop = top;
    const under = top + on.offsetHeight - list.clientHeight;
    if (under > list.scrollTop) list.scrollTop = under;
  });

  // The class of the row that has the focus, else the chosen one.
  return { rename: () => {
    const item = document.activeElement?.closest?.("#classes li");
    if (item) rename(Number(item.dataset.value), { back: document.activeElement.dataset.part });
    else rename();
  } };
}

// Number keys choose the first ten classes.
export const keyOf = (position) => (position < 9 ? String(position + 1) : position === 9 ? "0" : "");

// A long name may go on in the next line after an underscore, as it may after a hyphen.
const breakable = (name) => name.split(/(?<=_)/).flatMap((piece, k) => (k ? [el("wbr"), piece] : [piece]));
