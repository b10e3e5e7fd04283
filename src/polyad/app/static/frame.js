// What both pages have around the scene: zoom, help, light or dark, and who gets the keys.

import { $ } from "./dom.js";

/**
 * @param {import("./store.js").Store} store
 * @param {import("./viewer.js").Viewer} viewer
 */
export function pageFrame(store, viewer) {
  $("help").addEventListener("click", () => $("keys").showModal());
  $("zoom-in").addEventListener("click", () => viewer.zoom(1.5));
  $("zoom-out").addEventListener("click", () => viewer.zoom(1 / 1.5));
  $("zoom-fit").addEventListener("click", () => viewer.fit());
  $("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    viewer.draw();
    store.tell("theme");
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { viewer.draw(); store.tell("theme"); });

  // A press with the mouse or a finger leaves the keys to the scene: the Enter that follows is meant
  // for a pixel, not for the button. Before the button's own act, which may put the focus elsewhere.
  document.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (event.detail && target.closest("button, .links a, summary") && !target.closest("dialog")) {
      $("view").focus({ preventScroll: true });
    }
  }, true);
}

/**
 * Say where a pixel is: row and column, and its center in map coordinates if the scene has any.
 *
 * @param {Scene} scene
 * @param {number} row
 * @param {number} col
 */
export function showPlace({ transform, crs, unit }, row, col) {
  $("place").textContent = `row ${row}, column ${col}`;
  if (!transform) return;
  const [a, b, left, d, e, top] = transform;
  const [across, down] = [col + 0.5, row + 0.5];
  // One digit finer than a pixel
  const digits = Math.min(Math.max(Math.ceil(-Math.log10(Math.hypot(a, d))) + 1, 0), 8);
  const names = unit === "°" ? ["longitude", "latitude"] : ["x", "y"];
  const space = unit && unit !== "°" ? " " : "";
  $("coordinates").textContent = [a * across + b * down + left, d * across + e * down + top]
    .map((value, k) => `${names[k]} ${value.toFixed(digits)}${space}${unit}`).join(", ");
  $("crs").textContent = crs;
}
