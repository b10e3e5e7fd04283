// The spectrum under the pointer against wavelength, with the mean of each class.

import { $, colour, sharpen } from "./dom.js";

const MARGIN = { left: 40, right: 10, top: 8, bottom: 24 };

export function spectrumPlot(store) {
  const canvas = $("spectrum");
  let pixel = null; // {row, col, values}
  let wanted = null;
  let busy = false;
  let axis = null; // band positions in the order of their wavelengths

  function order() {
    const { wavelength, bands } = store.scene;
    const at = wavelength ?? Array.from({ length: bands }, (_, k) => k);
    const bandsInOrder = at.map((_, k) => k).filter((k) => at[k] != null).sort((a, b) => at[a] - at[b]);
    const steps = bandsInOrder.slice(1).map((k, j) => at[k] - at[bandsInOrder[j]]).sort((a, b) => a - b);
    const gap = 5 * (steps[Math.floor(steps.length / 2)] || 1); // wider: bands were taken out
    axis = { at, bandsInOrder, gap, unit: wavelength ? "nm" : "band" };
  }

  // One request at a time; only the newest pixel matters.
  async function show(row, col) {
    wanted = [row, col];
    if (busy) return;
    busy = true;
    while (wanted) {
      const [r, c] = wanted;
      wanted = null;
      try { pixel = await store.call(`api/spectrum?row=${r}&col=${c}`); } catch { pixel = null; }
      draw();
    }
    busy = false;
  }

  function draw() {
    if (!store.scene) return;
    if (!axis) order();
    const { context, width, height } = sharpen(canvas);
    context.clearRect(0, 0, width, height);
    const lines = [...store.classes.values()]
      .filter((info) => store.means[info.value])
      .map((info) => ({ values: store.means[info.value].mean, color: info.color, width: info.value === store.active ? 2.2 : 1.1 }));
    if (pixel) lines.push({ values: pixel.values, color: colour("--text"), width: 1.8 });
    $("spectrum-note").textContent = pixel ? `row ${pixel.row}, column ${pixel.col}` : "";
    const all = lines.flatMap((line) => line.values).filter((v) => v != null);
    if (!all.length) {
      context.fillStyle = colour("--muted");
      context.font = "12px system-ui, sans-serif";
      context.fillText("Move over the scene to see a pixel's spectrum.", 12, height / 2);
      return;
    }
    const low = all.reduce((a, b) => Math.min(a, b)), high = all.reduce((a, b) => Math.max(a, b));
    const first = axis.at[axis.bandsInOrder[0]], last = axis.at[axis.bandsInOrder.at(-1)];
    const x = (v) => MARGIN.left + ((v - first) / (last - first || 1)) * (width - MARGIN.left - MARGIN.right);
    const y = (v) => height - MARGIN.bottom - ((v - low) / (high - low || 1)) * (height - MARGIN.top - MARGIN.bottom);
    frame(context, { x, y, first, last, low, high, width, height });
    for (const line of lines) trace(context, line, x, y);
  }

  function frame(context, { x, y, first, last, low, high, width, height }) {
    context.font = "11px system-ui, sans-serif";
    context.lineWidth = 1;
    context.strokeStyle = colour("--line");
    context.fillStyle = colour("--muted");
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
    context.fillText(axis.unit, width - 2, height - 12);
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
  }

  function trace(context, line, x, y) {
    context.strokeStyle = line.color;
    context.lineWidth = line.width;
    context.lineJoin = "round";
    context.beginPath();
    let before = null;
    for (const band of axis.bandsInOrder) {
      const value = line.values[band];
      if (value == null) { before = null; continue; }
      const at = axis.at[band];
      if (before === null || at - before > axis.gap) context.moveTo(x(at), y(value));
      else context.lineTo(x(at), y(value));
      before = at;
    }
    context.stroke();
  }

  new ResizeObserver(draw).observe(canvas);
  for (const kind of ["means", "classes", "choice", "theme"]) store.addEventListener(kind, draw);
  return { show, draw };
}

// Round numbers between two ends.
export function ticks(low, high, count) {
  const raw = (high - low) / count;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) found.push(v);
  return found;
}

function brief(value) {
  const size = Math.abs(value);
  if (size >= 10000) return `${Math.round(value / 1000)}k`;
  return size >= 10 || value === 0 ? String(Math.round(value)) : String(Number(value.toPrecision(2)));
}
