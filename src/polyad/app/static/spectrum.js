// The spectrum under the pointer against wavelength, with the mean of each class.

import { $, themeColor, sharpen } from "./dom.js";

const MARGIN = { left: 40, right: 10, top: 8, bottom: 24 };

/**
 * @typedef {(value: number) => number} Place from a value to a position on the canvas
 * @typedef {{band: number, at: number}} Tick a band and its wavelength
 * @typedef {{bands: Tick[], gap: number, unit: string}} Axis
 * @typedef {{values: (number | null)[], color: string, width: number}} Line
 */

/**
 * The bands in the order of their wavelengths.
 *
 * @param {Scene} scene
 * @returns {Axis}
 */
function axisOf({ wavelength, bands: count }) {
  const at = wavelength ?? Array.from({ length: count }, (_, k) => k);
  const bands = at.flatMap((nm, band) => (nm == null ? [] : [{ band, at: nm }]));
  bands.sort((a, b) => a.at - b.at);
  const steps = bands.slice(1).map((tick, k) => tick.at - bands[k].at).sort((a, b) => a - b);
  const gap = 5 * (steps[Math.floor(steps.length / 2)] || 1); // wider: bands were taken out
  return { bands, gap, unit: wavelength ? "nm" : "band" };
}

/** @param {import("./store.js").Store} store */
export function spectrumPlot(store) {
  const canvas = $("spectrum");
  /** @type {Spectrum | null} */
  let pixel = null;
  /** @type {Pixel | null} */
  let wanted = null;
  let busy = false;
  /** @type {Axis | null} */
  let axis = null;

  /**
   * One request at a time; only the newest pixel matters.
   *
   * @param {number} row
   * @param {number} col
   */
  async function show(row, col) {
    wanted = [row, col];
    if (busy) return;
    busy = true;
    while (wanted) {
      const [r, c] = /** @type {Pixel} */ (wanted);
      wanted = null;
      try { pixel = await store.call(`api/spectrum?row=${r}&col=${c}`); } catch { pixel = null; }
      draw();
    }
    busy = false;
  }

  function draw() {
    if (!store.scene) return;
    axis ??= axisOf(store.scene);
    const { context, width, height } = sharpen(canvas);
    context.clearRect(0, 0, width, height);
    /** @type {Line[]} */
    const lines = [...store.classes.values()]
      .filter((info) => store.means[info.value])
      .map(({ value, color }) => (
        { values: store.means[value].mean, color, width: value === store.active ? 2.2 : 1.1 }));
    if (pixel) lines.push({ values: pixel.values, color: themeColor("--text"), width: 1.8 });
    $("spectrum-note").textContent = pixel ? `row ${pixel.row}, column ${pixel.col}${pixel.data ? "" : ", no data"}` : "";
    const all = lines.flatMap((line) => line.values.flatMap((v) => v ?? []));
    if (!all.length) {
      context.fillStyle = themeColor("--muted");
      context.font = "12px system-ui, sans-serif";
      context.fillText("Move over the scene to see a pixel's spectrum.", 12, height / 2);
      return;
    }
    const low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b));
    const first = axis.bands[0].at, last = axis.bands[axis.bands.length - 1].at;
    /** @type {Place} */
    const x = (v) => MARGIN.left + ((v - first) / (last - first || 1)) * (width - MARGIN.left - MARGIN.right);
    /** @type {Place} */
    const y = (v) => height - MARGIN.bottom - ((v - low) / (high - low || 1)) * (height - MARGIN.top - MARGIN.bottom);
    frame(context, { x, y, first, last, low, high, width, height, unit: axis.unit });
    for (const line of lines) trace(context, line, axis, x, y);
  }

  /**
   * @param {Draw} context
   * @param {{x: Place, y: Place, first: number, last: number, low: number, high: number,
   *          width: number, height: number, unit: string}} box
   */
  function frame(context, { x, y, first, last, low, high, width, height, unit }) {
    context.font = "11px system-ui, sans-serif";
    context.lineWidth = 1;
    context.strokeStyle = themeColor("--line");
    context.fillStyle = themeColor("--muted");
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const v of ticks(low, high, 4)) {
      context.beginPath();
      context.moveTo(MARGIN.left, y(v));
      context.lineTo(width - MARGIN.right, y(v));
      context.stroke();
      context.fillText(brief(v), MARGIN.left - 5, y(v));
    }
    context.textAlign = "center";
    for (const v of ticks(first, last, 4)) context.fillText(brief(v), x(v), height - 12);
    context.textAlign = "right";
    context.fillText(unit, width - 2, height - 12);
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
  }

  /**
   * @param {Draw} context
   * @param {Line} line
   * @param {Axis} axis
   * @param {Place} x
   * @param {Place} y
   */
  function trace(context, line, { bands, gap }, x, y) {
    context.strokeStyle = line.color;
    context.lineWidth = line.width;
    context.lineJoin = "round";
    context.beginPath();
    /** @type {number | null} */
    let before = null;
    for (const { band, at } of bands) {
      const value = line.values[band];
      if (value == null) { before = null; continue; }
      if (before === null || at - before > gap) context.moveTo(x(at), y(value));
      else context.lineTo(x(at), y(value));
      before = at;
    }
    context.stroke();
  }

  new ResizeObserver(draw).observe(canvas);
  for (const kind of ["means", "classes", "choice", "theme"]) store.addEventListener(kind, draw);
  return { show, draw };
}

/**
 * Round numbers between two ends.
 *
 * @param {number} low
 * @param {number} high
 * @param {number} count
 */
function ticks(low, high, count) {
  const raw = (high - low) / count;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5].map((k) => k * power).find((k) => k >= raw) ?? 10 * power;
  const values = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) values.push(v);
  return values;
}

/** @param {number} value */
function brief(value) {
  const size = Math.abs(value);
  if (size >= 10000) return `${Math.round(value / 1000)}k`;
  return size >= 10 || value === 0 ? String(Math.round(value)) : String(Number(value.toPrecision(2)));
}
