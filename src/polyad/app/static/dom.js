// Small tools for the page. Text always goes in as text, never as markup.

/**
 * An element of the page.
 *
 * @template {keyof PageElements} Id
 * @param {Id} id
 * @returns {PageElements[Id]}
 */
export const $ = (id) => /** @type {any} */ (document.getElementById(id));

/**
 * A new element.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} props
 * @param {(Node | string | null)[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, props = {}, ...children) {
  /** @type {any} */
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
const TOAST = { problem: 8000, busy: 120000, fine: 3000 }; // ms that a message stays

/**
 * @param {string} text
 * @param {keyof typeof TOAST} kind
 */
export function toast(text, kind = "problem") {
  const node = $("toast");
  node.textContent = text;
  node.dataset.kind = kind;
  node.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { node.hidden = true; }, TOAST[kind]);
}

/**
 * Choose one of several buttons that stand for one value; returns what shows a value as chosen.
 *
 * @template {string} Name
 * @param {Record<Name, HTMLButtonElement>} buttons
 * @param {(name: Name) => void} onChoose
 */
export function choice(buttons, onChoose) {
  const pairs = /** @type {[Name, HTMLButtonElement][]} */ (Object.entries(buttons));
  const set = (/** @type {Name} */ value) => {
    for (const [name, button] of pairs) {
      const on = name === value;
      button.setAttribute("aria-pressed", String(on));
      button.classList.toggle("on", on);
    }
  };
  for (const [name, button] of pairs) button.addEventListener("click", () => onChoose(name));
  return set;
}

/** The canvas's context. */
export const contextOf = (/** @type {HTMLCanvasElement} */ canvas) =>
  /** @type {Draw} */ (canvas.getContext("2d"));

/**
 * A canvas of the size it is shown at, in device pixels.
 *
 * @param {HTMLCanvasElement} canvas
 */
export function sharpen(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const context = contextOf(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

export const themeColor = (/** @type {string} */ name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const percent = (/** @type {number | null | undefined} */ share, digits = 1) =>
  share == null ? "–" : `${(100 * share).toFixed(digits)} %`;

/** What to show of an error. */
export const messageOf = (/** @type {unknown} */ error) =>
  (error instanceof Error ? error.message : String(error));
