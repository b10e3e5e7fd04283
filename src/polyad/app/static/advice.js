// Where to click next: the suggested pixel, and the banner that asks for its class.

import { $, percent, toast } from "./dom.js";

const CLOSE_UP = 10; // CSS pixels of a scene pixel that is easily hit

/**
 * @typedef {import("./store.js").Store} Store
 * @typedef {import("./viewer.js").Viewer} Viewer
 */

/**
 * @param {Store} store
 * @param {Viewer} viewer
 * @param {{look: (row: number, col: number) => void, askForClass: () => void}} acts
 */
export function adviceBanner(store, viewer, { look, askForClass }) {
  const isOpen = () => viewer.suggested !== null;
  const open = () => (store.map.advice ?? []).filter(([row, col]) => !store.labels.has(`${row},${col}`));

  /** @param {1 | -1} step */
  function next(step) {
    const advice = open();
    if (!advice.length) { toast("Suggestions come with the first map: label two classes.", "fine"); return; }
    const [r, c] = viewer.suggested ?? [];
    const at = advice.findIndex(([row, col]) => row === r && col === c);
    const to = at < 0 ? (step > 0 ? 0 : advice.length - 1) : (at + step + advice.length) % advice.length;
    const [row, col, unsure] = advice[to];
    if (store.erasing) store.choose(store.active); // a suggestion asks for a label
    viewer.suggested = [row, col];
    Object.assign(viewer.cursor, { row, col, shown: true, used: true });
    viewer.center(row, col, Math.max(viewer.scale, CLOSE_UP));
    say(unsure);
    look(row, col);
  }

  /** @param {number} unsure */
  function say(unsure) {
    $("hint-text").textContent = `${percent(unsure, 0)} unsure here: which class?`;
    $("hint").hidden = false;
    name();
  }

  // The button says what it will do.
  function name() {
    const info = store.classes.get(store.active);
    $("hint-class").textContent = info?.name ?? "";
    $("hint-swatch").style.background = info?.color ?? "none";
  }

  function accept() {
    if (!viewer.suggested) return;
    if (!store.classes.size) { askForClass(); return; }
    const pixels = [viewer.suggested];
    close();
    store.paint(pixels, store.active);
    store.do({ do: "label", class: store.active, pixels });
    look(...pixels[0]);
  }

  function close() {
    viewer.suggested = null;
    $("hint").hidden = true;
    viewer.draw();
  }

  $("next").addEventListener("click", () => { $("view").focus({ preventScroll: true }); next(1); });
  $("hint-label").addEventListener("click", accept);
  $("hint-skip").addEventListener("click", () => next(1));
  $("hint-close").addEventListener("click", close);
  // A button that goes away must not take the focus with it.
  $("hint").addEventListener("click", () => { if (!isOpen()) $("view").focus({ preventScroll: true }); });
  for (const kind of ["choice", "classes"]) store.addEventListener(kind, name);
  store.addEventListener("labels", () => {
    if (viewer.suggested && store.labels.has(viewer.suggested.join())) close();
  });
  store.addEventListener("map", () => {
    $("next").disabled = !(store.map.advice ?? []).length;
    if (!viewer.suggested) return;
    if (store.map.stage === "none") { close(); return; }
    const [r, c] = viewer.suggested;
    // What was suggested stays: a new map must not pull it away from under a finger.
    const again = open().find(([row, col]) => row === r && col === c);
    if (again) say(again[2]);
  });

  return { next, accept, close, isOpen };
}
