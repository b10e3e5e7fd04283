// Small tools for the page. Text always goes in as text, never as markup.

export const $ = (id) => document.getElementById(id);

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === "class") node.className = value;
    else if (key === "data") Object.assign(node.dataset, value);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key.startsWith("aria") || key === "role") node.setAttribute(key.replace("_", "-"), value);
    else node[key] = value;
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

let toastTimer = 0;

export function toast(text, kind = "problem") {
  const node = $("toast");
  node.textContent = text;
  node.dataset.kind = kind;
  node.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { node.hidden = true; }, { problem: 8000, busy: 120000 }[kind] ?? 3000);
}

// Choose one of several buttons that stand for one value.
export function choice(buttons, onChoose) {
  const set = (value) => {
    for (const [name, button] of Object.entries(buttons)) {
      const on = name === value;
      button.setAttribute("aria-pressed", String(on));
      button.classList.toggle("on", on);
    }
  };
  for (const [name, button] of Object.entries(buttons)) {
    button.addEventListener("click", () => onChoose(name));
  }
  return set;
}

// A canvas of the size it is shown at, in device pixels.
export function sharpen(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

export const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const percent = (share, digits = 1) =>
  share == null ? "–" : `${(100 * share).toFixed(digits)} %`;
