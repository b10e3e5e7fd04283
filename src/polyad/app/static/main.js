// The labeling page, put together.

import { adviceBanner } from "./advice.js";
import { classList } from "./classes.js";
import { $, choice, percent, toast } from "./dom.js";
import { pageFrame, showPlace } from "./frame.js";
import { bindKeys } from "./keys.js";
import { colorPanel, filesPanel, mapPanel, scorePanel } from "./panels.js";
import { Pointer } from "./pointer.js";
import { spectrumPlot } from "./spectrum.js";
import { Store } from "./store.js";
import { Viewer } from "./viewer.js";

const store = new Store();
const viewer = new Viewer($("view"), store);
const spectrum = spectrumPlot(store);
const overlay = mapPanel(store, viewer);
const files = filesPanel(store);
scorePanel(store);
colorPanel(store, viewer);
const classes = classList(store);
const advice = adviceBanner(store, viewer, { look, askForClass });
new Pointer(viewer, store, { onHover: look, onNothing: askForClass });

// -- what lies under the pointer or cursor --------------------------------------------------------

let asked = 0;

/**
 * @param {number} row
 * @param {number} col
 */
async function look(row, col) {
  showPlace(store.openScene, row, col);
  spectrum.show(row, col);
  const mine = (asked += 1);
  const label = store.labels.get(`${row},${col}`);
  let text = label ? `labeled ${store.classes.get(label)?.name}` : "";
  if (store.map.stage !== "none") {
    try {
      /** @type {{class: number, uncertainty: number}} */
      const mapped = await store.call(`api/class?row=${row}&col=${col}`);
      const name = store.classes.get(mapped.class)?.name;
      if (name) text += `${text ? ", " : ""}mapped ${name} (${percent(mapped.uncertainty, 0)} unsure)`;
    } catch { /* the scene is gone; the spectrum says so */ }
  }
  if (mine === asked) $("under").textContent = text;
}

function askForClass() {
  toast("Add a class first: type its name and press Enter.", "fine");
  $("new-class").focus();
}

// -- cursor and labels by key -----------------------------------------------------------------------

/**
 * @param {number} rows
 * @param {number} cols
 */
function moveCursor(rows, cols, { shiftKey = false } = {}) {
  if (!store.scene) return;
  advice.close();
  const by = shiftKey ? 10 : 1;
  const { cursor } = viewer;
  const { width, height } = store.scene;
  if (!cursor.shown && viewer.hover) [cursor.row, cursor.col] = viewer.hover;
  else if (!cursor.shown && !cursor.used) {
    [cursor.row, cursor.col] = [Math.floor(height / 2), Math.floor(width / 2)];
  } else {
    cursor.row = Math.min(Math.max(cursor.row + rows * by, 0), height - 1);
    cursor.col = Math.min(Math.max(cursor.col + cols * by, 0), width - 1);
  }
  cursor.shown = cursor.used = true;
  viewer.reveal(cursor.row, cursor.col);
  look(cursor.row, cursor.col);
}

/** @param {number} value */
function labelCursor(value) {
  const { cursor } = viewer;
  if (!cursor.shown) { moveCursor(0, 0); return; }
  if (value && !store.classes.size) { askForClass(); return; }
  /** @type {Pixel[]} */
  const pixels = [[cursor.row, cursor.col]];
  store.paint(pixels, value);
  store.do({ do: "label", class: value, pixels });
  look(cursor.row, cursor.col);
}

// Enter takes the suggestion, unless the cursor was moved to another pixel.
function enter() {
  if (advice.isOpen()) advice.accept();
  else labelCursor(store.erasing ? 0 : store.active);
}

/** @param {number} position */
function pick(position) {
  const info = [...store.classes.values()][position];
  if (info) store.choose(info.value);
}

/** @param {number} by */
function step(by) {
  const ids = [...store.classes.keys()];
  if (ids.length) store.choose(ids[(ids.indexOf(store.active) + by + ids.length) % ids.length]);
}

const setTool = choice({ label: $("tool-label"), erase: $("tool-erase") }, tool);
/** @param {"label" | "erase"} name */
function tool(name) {
  store.erasing = name === "erase";
  store.tell("choice");
}

/** @param {boolean} on */
function hide(on) {
  if (viewer.hidden === on) return;
  viewer.hidden = on;
  viewer.draw();
}

const undo = () => store.do({ do: "undo" });
const redo = () => store.do({ do: "redo" });
const digits = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"];

bindKeys([
  [["ArrowUp"], "", (e) => moveCursor(-1, 0, e)],
  [["ArrowDown"], "", (e) => moveCursor(1, 0, e)],
  [["ArrowLeft"], "", (e) => moveCursor(0, -1, e)],
  [["ArrowRight"], "", (e) => moveCursor(0, 1, e)],
  [["arrows"], "move the cursor; with Shift by ten pixels", () => {}],
  [["Enter", " "], "label the pixel under the cursor, or the one suggested", enter],
  [["Delete", "Backspace"], "erase its label", () => labelCursor(0)],
  ...digits.map((key, k) => /** @type {import("./keys.js").Row} */ ([[key], "", () => pick(k)])),
  [["1 … 0"], "choose one of the first ten classes", () => {}],
  [["[", "]"], "choose the class before or after", (e) => step(e.key === "[" ? -1 : 1)],
  [["a"], "add a class", () => $("new-class").focus()],
  [["F2"], "rename the chosen class", () => classes.rename()],
  [["n"], "where to click next; with Shift back", (e) => advice.next(e.shiftKey ? -1 : 1)],
  [["z"], "undo", undo],
  [["y"], "redo", redo],
  [["l"], "labeling tool", () => tool("label")],
  [["e"], "erasing tool", () => tool("erase")],
  [["h"], "hold to see the scene alone", () => hide(true), () => hide(false)],
  [["m"], "map on or off", () => overlay.toggle("map")],
  [["u"], "uncertainty on or off", () => overlay.toggle("uncertainty")],
  [["+", "="], "zoom in", () => zoomKey(1.5)],
  [["-"], "zoom out", () => zoomKey(1 / 1.5)],
  [["f"], "whole scene", () => viewer.fit()],
  [["s"], "save labels as CSV", () => files.save("api/labels/csv")],
  [["?"], "show these keys", () => $("keys").showModal()],
  [["Escape"], "", leave],
]);

function leave() {
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  advice.close();
  $("view").focus();
}

/** @param {number} factor */
function zoomKey(factor) {
  const { cursor } = viewer;
  if (cursor.shown) {
    const [x, y, side] = viewer.rect(cursor.row, cursor.col);
    viewer.zoom(factor, x + side / 2, y + side / 2);
  } else viewer.zoom(factor);
}

// -- the bar ----------------------------------------------------------------------------------------

$("undo").addEventListener("click", undo);
$("redo").addEventListener("click", redo);
pageFrame(store, viewer);

/** @param {string} text */
function status(text, kind = "") {
  $("status").textContent = text;
  $("status").dataset.kind = kind;
}

function mapStatus() {
  const { stage, revision = 0, version, labels: count = store.labels.size } = store.map;
  if (store.awaitsMap && store.failed) status("no map", "problem");
  else if (store.awaitsMap) status(`computing the map of ${store.labels.size} labels`, "busy");
  else if (stage === "none") status(store.labels.size ? "label a second class" : "ready");
  else status(`map of ${count} labels${stage === "draft" ? ", refining" : ""}`, stage);
  $("status").dataset.version = String(version);
  $("status").dataset.stage = stage;
  $("status").dataset.revision = String(revision);
}

store.addEventListener("labels", () => {
  $("undo").disabled = !store.undo;
  $("redo").disabled = !store.redo;
  if (store.map.stage === "none") mapStatus();
  viewer.draw();
});
store.addEventListener("classes", () => viewer.draw());
store.addEventListener("choice", () => setTool(store.erasing ? "erase" : "label"));
store.addEventListener("map", mapStatus);
store.on("progress", ({ stage, share, labels }) => {
  if (share) status(`map of ${labels} labels, ${percent(share, 0)}`, "draft"); // the rest of the scene
  else if (stage === "draft" || store.awaitsMap) status(`fitting ${labels} labels`, "busy");
  else status(`map of ${labels} labels, refining`, "draft");
});
store.on("learning", ({ share }) => {
  const note = $("learning");
  note.hidden = share === null;
  if (share === null) return;
  note.textContent = `learning the scene, ${percent(share, 0)}`;
  note.setAttribute("aria-valuenow", String(Math.round(100 * share)));
});
store.on("problem", ({ message }) => {
  toast(message);
  if (store.awaitsMap) mapStatus();
});
store.addEventListener("offline", () => status("polyad has stopped; labels are safe", "problem"));
store.addEventListener("online", () => mapStatus());
store.addEventListener("scene", () => {
  const { name, width, height, bands } = store.openScene;
  document.title = `${name}, polyad`;
  $("scene-name").textContent = `${name}, ${height} × ${width} pixels, ${bands} bands`;
  viewer.fit();
  store.tell("choice");
});

// Of large scenes, what is looked at is mapped first.
let told = "";
function tellView() {
  if (!store.scene?.large || document.hidden) return;
  const body = JSON.stringify(viewer.view());
  if (body === told) return;
  told = body;
  store.call("api/focus", { method: "POST", headers: { "content-type": "application/json" }, body })
    .catch(() => {});
}
setInterval(tellView, 250);

store.listen();
store.watchVisibility();
window.polyad = { store, viewer }; // for tests and the curious
