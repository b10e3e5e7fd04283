// The list of classes: choose, rename, recolour, delete; how many labels, what share of the map.

import { $, el, percent } from "./dom.js";

export function classList(store) {
  const list = $("classes");

  function row(info, position) {
    const choose = el("button", {
      class: "key", type: "button", title: `Label with this class (${keyOf(position)})`,
      onclick: () => store.choose(info.value),
    }, keyOf(position) || "•");
    choose.setAttribute("aria-label", `Choose ${info.name}`);
    const swatch = el("input", {
      type: "color", value: info.color.toLowerCase(), title: "Colour",
      onchange: (e) => store.do({ do: "change", class: info.value, color: e.target.value }),
    });
    swatch.setAttribute("aria-label", `Colour of ${info.name}`);
    const name = el("input", {
      type: "text", class: "name", value: info.name, maxLength: 80, title: info.name,
      onfocus: () => store.choose(info.value),
      onkeydown: (e) => {
        if (e.key === "Enter") e.target.blur();
        if (e.key === "Escape") { e.target.value = info.name; e.target.blur(); }
      },
      onchange: async (e) => {
        const done = await store.do({ do: "change", class: info.value, name: e.target.value });
        if (!done) e.target.value = info.name;
      },
    });
    name.setAttribute("aria-label", `Name of class ${info.value}`);
    const remove = el("button", {
      class: "icon quiet", type: "button", title: "Delete the class and its labels",
      onclick: () => store.do({ do: "delete", class: info.value }),
    }, "×");
    remove.setAttribute("aria-label", `Delete ${info.name}`);
    return el("li", { data: { value: info.value }, onclick: (e) => { if (e.target.tagName === "LI") store.choose(info.value); } },
      choose, swatch, name, el("span", { class: "count", title: "labels" }),
      el("span", { class: "share", title: "share of the map" }), remove, el("i", { class: "meter" }));
  }

  function rebuild() {
    const typing = document.activeElement?.closest?.("#classes li")?.dataset.value;
    const field = document.activeElement?.className;
    list.replaceChildren(...[...store.classes.values()].map(row));
    if (typing) list.querySelector(`li[data-value="${Number(typing)}"] .${field || "key"}`)?.focus();
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

  store.addEventListener("classes", rebuild);
  for (const kind of ["labels", "map", "choice"]) store.addEventListener(kind, update);
  store.addEventListener("choice", () => {
    // Only the list scrolls, never the page with it.
    const on = list.querySelector("li.on");
    if (!on || list.scrollHeight <= list.clientHeight) return;
    const top = on.offsetTop - list.offsetTop;
    if (top < list.scrollTop) list.scrollTop = top;
    const under = top + on.offsetHeight - list.clientHeight;
    if (under > list.scrollTop) list.scrollTop = under;
  });
}

// Number keys choose the first ten classes.
export const keyOf = (position) => (position < 9 ? String(position + 1) : position === 9 ? "0" : "");
