// The scene in quiet grays: under the map its own colors would mix with those of the classes, and
// the mixture would be the color of some other class.

import { contextOf } from "./dom.js";

const CALM = 0.4; // how far grays are drawn towards the middle
/** @type {WeakMap<HTMLImageElement, HTMLCanvasElement>} */
const made = new WeakMap();

/**
 * @param {HTMLImageElement} image
 * @returns {HTMLCanvasElement}
 */
export function grayed(image) {
  const known = made.get(image);
  if (known) return known;
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = contextOf(canvas);
  /** @type {(mode: GlobalCompositeOperation, act: () => void) => void} */
  const paint = (mode, act) => { context.globalCompositeOperation = mode; act(); };
  const fill = () => context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0);
  context.fillStyle = "#808080";
  paint("saturation", fill); // luminance alone
  context.globalAlpha = CALM;
  paint("source-over", fill);
  context.globalAlpha = 1;
  paint("destination-in", () => context.drawImage(image, 0, 0)); // clear where there is no data
  made.set(image, canvas);
  return canvas;
}
