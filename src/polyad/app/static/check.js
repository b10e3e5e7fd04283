// The page on which a sample is checked, put together.

import { choicePanel, pointList } from "./check_panels.js";
import { CheckStore } from "./check_store.js";
import { CheckPointer, CheckViewer } from "./check_view.js";
import { $, choice, toast } from "./dom.js";
import { pageFrame, showPlace } from "./frame.js";
import { bindKeys } from "./keys.js";
import { colorPanel } from "./panels.js";
import { spectrumPlot } from "./spectrum.js";

const CLOSE_UP = 14; // CSS pixels of a scene pixel that can be told from its neighbors

const store = new CheckStore();
const viewer = new CheckViewer($("view"), store);
const spectrum = spectrumPlot(store);
colorPanel(store, viewer);
choicePanel(store, give);
pointList(store, (point) => store.go(point));
pageFrame(store, viewer);
new CheckPointer(viewer, store, { onHover: look, onPick: (point) => store.go(point) });
$("view").addEventListener("pointerleave", lookAtPoint);

// -- answers ----------------------------------------------------------------------------------------

/** @param {Partial<CheckAnswer>} answer */
async function say(answer, { onward = true } = {}) {
  if (!store.sample) return;
  const point = store.current;
  const sent = store.answer(point, { value: 0, unsure: false, note: $("note").value.trim(), ...answer });
  if (onward) skip(1, { quiet: true }); // before the server has confirmed: the next is looked at meanwhile
  if (!await sent) store.go(point);
}

/** @param {number} value */
function give(value) { say({ value }); }

const cannotTell = () => say({ unsure: true });
const clear = () => say({ note: "" }, { onward: false }).then(() => { $("note").value = ""; });

function giveChosen() {
  if (store.active) give(store.active);
  else toast("Choose a class with the arrow keys first, or press its number.", "fine");
}

/** @param {number} position */
function pick(position) {
  const info = [...store.classes.values()][position];
  if (info) give(info.value);
}

/** @param {number} by */
function choose(by) {
  const ids = [...store.classes.keys()];
  const at = ids.indexOf(store.active);
  if (ids.length) store.choose(ids[at < 0 ? (by > 0 ? 0 : ids.length - 1) : (at + by + ids.length) % ids.length]);
}

async function takeBack() {
  const point = await store.takeBack();
  if (point === null) toast("There is no answer of this page to take back.", "fine");
  else store.go(point);
}

// A note of a point that has an answer is saved with it; else it waits for one.
$("note").addEventListener("change", () => {
  const { value, unsure } = store.answers[store.current];
  if (value || unsure) say({ value, unsure }, { onward: false });
});
$("note").addEventListener("keydown", (event) => {
  if (event.key === "Enter") { event.preventDefault(); $("note").blur(); $("view").focus({ preventScroll: true }); }
});

// -- from point to point ----------------------------------------------------------------------------

/** @param {1 | -1} by */
function step(by) {
  const n = store.answers.length;
  if (n) store.go((store.current + by + n) % n);
}

/** @param {1 | -1} by */
function skip(by, { quiet = false } = {}) {
  const point = store.nextOpen(store.current, by);
  if (point !== null) store.go(point);
  else if (!quiet) toast("Every point has an answer.", "fine");
}

function lookAtPoint() {
  if (store.sample) look(...store.pixel(store.current));
}

/**
 * @param {number} row
 * @param {number} col
 */
function look(row, col) {
  spectrum.show(row, col);
  showPlace(store.openScene, row, col);
}

function ask() {
  if (!store.sample) return;
  const { current, answers, sample } = store;
  const { value, unsure } = answers[current];
  const mapped = sample.mapped && store.classes.get(sample.mapped[current]);
  const said = unsure ? "cannot tell" : store.classes.get(value)?.name;
  const all = answers.length, open = all - store.done;
  const text = `Point ${current + 1} of ${all}${said ? `: ${said}` : ": what is there?"}`;
  $("asking-text").textContent = open ? text : `${text}. All ${all} points are checked.`;
  $("answer-note").textContent = `point ${current + 1}${mapped ? `, the map says ${mapped.name}` : ""}`;
  status();
}

function atPoint() {
  const [row, col] = store.pixel(store.current);
  Object.assign(viewer.cursor, { row, col, shown: false });
  viewer.center(row, col, Math.max(viewer.scale, CLOSE_UP));
  $("note").value = store.answers[store.current].note;
  lookAtPoint();
  ask();
}

function status(text = `${store.done} of ${store.answers.length} checked`, kind = "") {
  $("status").textContent = text;
  $("status").dataset.kind = kind || (store.answers.length && store.done === store.answers.length ? "final" : "");
  $("undo").disabled = !store.given.length;
}

store.addEventListener("point", atPoint);
store.addEventListener("answers", () => { ask(); viewer.draw(); });
store.addEventListener("labels", () => status());
store.on("problem", ({ message }) => toast(message));
store.addEventListener("offline", () => status("polyad has stopped; answers are safe", "problem"));
store.addEventListener("online", () => status());
store.addEventListener("scene", () => {
  const { scene, sample, out, journal, blind, map } = store.openSample;
  document.title = `${sample}, polyad`;
  $("scene-name").textContent = `${sample} on ${scene.name}${blind ? ", blind" : ""}`;
  $("out").textContent = out;
  $("journal").textContent = journal;
  $("map-panel").hidden = !map;
  viewer.fit();
});

// -- the map, unless blind --------------------------------------------------------------------------

const setOverlay = choice({ scene: $("show-scene"), map: $("show-map") }, show);
/** @param {"scene" | "map"} kind */
function show(kind) {
  viewer.overlay = kind;
  setOverlay(kind);
  viewer.draw();
}
show("scene");
$("opacity").addEventListener("input", () => {
  viewer.opacity = Number($("opacity").value) / 100;
  viewer.draw();
});

/** @param {boolean} on */
function hide(on) {
  if (viewer.hidden === on) return;
  viewer.hidden = on;
  viewer.draw();
}

// -- keys and buttons -------------------------------------------------------------------------------

const digits = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"];
bindKeys([
  ...digits.map((key, k) => /** @type {import("./keys.js").Row} */ ([[key], "", () => pick(k)])),
  [["1 … 0"], "the point is of one of the first ten classes", () => {}],
  [["ArrowUp", "ArrowDown"], "choose a class", (e) => choose(e.key === "ArrowUp" ? -1 : 1)],
  [["Enter", " "], "the point is of the chosen class", giveChosen],
  [["x"], "cannot tell: it stays empty and is counted", cannotTell],
  [["t"], "write a note; Enter ends it", () => $("note").focus()],
  [["Delete", "Backspace"], "take the answer away", clear],
  [["z"], "take back the last answer", takeBack],
  [["n"], "skip: next unchecked point; with Shift the one before", (e) => skip(e.shiftKey ? -1 : 1)],
  [["ArrowLeft", "ArrowRight"], "previous or next point", (e) => step(e.key === "ArrowLeft" ? -1 : 1)],
  [["c"], "back to the point", () => { if (store.sample) atPoint(); }],
  [["h"], "hold to see the scene alone", () => hide(true), () => hide(false)],
  [["m"], "map on or off, unless blind", () => { if (store.sample?.map) show(viewer.overlay === "map" ? "scene" : "map"); }],
  [["+", "="], "zoom in", () => viewer.zoom(1.5)],
  [["-"], "zoom out", () => viewer.zoom(1 / 1.5)],
  [["f"], "whole scene", () => viewer.fit()],
  [["?"], "show these keys", () => $("keys").showModal()],
  [["Escape"], "", () => {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    $("view").focus();
  }],
]);
$("previous").addEventListener("click", () => step(-1));
$("following").addEventListener("click", () => step(1));
$("skip").addEventListener("click", () => skip(1));
$("undo").addEventListener("click", takeBack);
$("cannot").addEventListener("click", cannotTell);
$("clear").addEventListener("click", clear);
$("zoom-point").addEventListener("click", () => { if (store.sample) atPoint(); });

store.listen();
store.watchVisibility();
window.polyad = { store, viewer }; // for tests and the curious
