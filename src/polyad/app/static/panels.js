// Map, accuracy, colors, files: the panels beside the scene.

import { $, choice, themeColor, el, messageOf, percent, sharpen, toast } from "./dom.js";

/**
 * @typedef {import("./store.js").Store} Store
 * @typedef {import("./viewer.js").Viewer} Viewer
 */

/**
 * @param {Store} store
 * @param {Viewer} viewer
 */
export function mapPanel(store, viewer) {
  const set = choice(
    { scene: $("show-scene"), map: $("show-map"), uncertainty: $("show-uncertainty") }, show);
  /** @param {Overlay} kind */
  function show(kind) {
    viewer.overlay = kind;
    set(kind);
    legend();
    viewer.draw();
  }
  function legend() {
    $("legend").hidden = viewer.overlay !== "uncertainty" || store.map.stage === "none";
    $("legend-ramp").style.opacity = String(viewer.opacity); // the colors as they are over the scene
  }
  $("opacity").addEventListener("input", () => {
    viewer.opacity = Number($("opacity").value) / 100;
    legend();
    viewer.draw();
  });
  store.addEventListener("scene", () => {
    const stops = store.openScene.uncertainty_ramp
      .map(([at, [r, g, b, a]]) => `rgb(${r} ${g} ${b} / ${a / 255}) ${100 * at}%`);
    $("legend-ramp").style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  });
  function note() {
    const { stage, share = 0 } = store.map;
    $("map-note").textContent =
      store.awaitsMap ? store.failed ? "" : "being computed"
        : stage === "none" ? "label two classes to see it"
          : share < 1 ? share ? `${percent(share, 0)} mapped` : "what is in view; the rest follows"
            : stage;
  }
  for (const kind of ["labels", "problem"]) store.addEventListener(kind, note);
  store.addEventListener("map", () => {
    const { stage, steps } = store.map;
    note();
    $("map-steps").textContent = steps ?? "";
    $("map-how").hidden = stage === "none" || !steps;
    legend();
    viewer.draw();
  });
  show("map");
  return { show, toggle: (/** @type {Overlay} */ kind) => show(viewer.overlay === kind ? "scene" : kind) };
}

/** @param {Store} store */
export function scorePanel(store) {
  store.addEventListener("scene", () => { $("score-panel").hidden = !store.openScene.truth; });
  store.addEventListener("map", () => {
    const score = store.map.stage === "none" ? null : store.map.score;
    $("score-overall").textContent = percent(score?.overall);
    $("score-apart").textContent = percent(score?.no_overlap);
    $("score-average").textContent = percent(score?.average);
    $("score-note").textContent =
      score ? `${score.classes} classes, ${score.pixels.toLocaleString("en")} pixels` : "";
    draw();
  });
  function draw() {
    if (!store.scene?.truth) return;
    const points = store.history;
    $("score-curve").hidden = points.length < 2;
    if (points.length < 2) return;
    const { context, width, height } = sharpen($("score-curve"));
    context.clearRect(0, 0, width, height);
    const counts = points.map(([n]) => n), values = points.map(([, v]) => v);
    const least = counts[0], most = counts[counts.length - 1];
    const low = Math.min(...values), high = Math.max(...values);
    const x = (/** @type {number} */ n) => 3 + ((n - least) / (most - least || 1)) * (width - 6);
    const y = (/** @type {number} */ v) => height - 4 - ((v - low) / (high - low || 1)) * (height - 8);
    context.strokeStyle = themeColor("--accent");
    context.lineWidth = 2;
    context.lineJoin = "round";
    context.beginPath();
    points.forEach(([n, v], k) => (k ? context.lineTo(x(n), y(v)) : context.moveTo(x(n), y(v))));
    context.stroke();
    context.fillStyle = themeColor("--accent");
    context.beginPath();
    context.arc(x(most), y(values[values.length - 1]), 3, 0, 2 * Math.PI);
    context.fill();
  }
  store.addEventListener("theme", draw);
}

/**
 * @param {Store} store
 * @param {Viewer} viewer
 */
export function colorPanel(store, viewer) {
  const names = ["red", "green", "blue"];
  const inputs = names.map(() => el("input", { type: "range", min: 0, value: 0 }));
  const notes = names.map(() => el("output"));
  names.forEach((name, k) => {
    inputs[k].setAttribute("aria-label", `Band shown as ${name}`);
    $("bands").append(el("label", { class: "row band" },
      el("span", { class: `dot ${name}` }), inputs[k], notes[k]));
    inputs[k].addEventListener("input", () => take(inputs.map((input) => Number(input.value))));
  });
  /** @param {Bands} bands */
  function take(bands) {
    const { wavelength } = store.openScene;
    viewer.bands = bands;
    bands.forEach((band, k) => {
      inputs[k].value = String(band);
      const nm = wavelength?.[band];
      notes[k].textContent = nm == null ? `band ${band}` : `${Math.round(nm)} nm`;
    });
    viewer.draw();
  }
  function stretch() {
    const low = Number($("low").value), high = Number($("high").value);
    if (low >= 0 && low < high && high <= 100) { viewer.stretch = [low, high]; viewer.draw(); }
  }
  $("low").addEventListener("change", stretch);
  $("high").addEventListener("change", stretch);
  $("false-color").addEventListener("click", () => { if (store.scene) take(store.scene.false_color); });
  $("true-color").addEventListener("click", () => { if (store.scene) take(store.scene.true_color); });
  store.addEventListener("scene", () => {
    for (const input of inputs) input.max = String(store.openScene.bands - 1);
    take(store.openScene.false_color);
  });
}

/** @param {Store} store */
export function filesPanel(store) {
  store.addEventListener("scene", () => {
    $("journal").textContent = store.openScene.journal;
    $("load").accept = store.openScene.uploads.flat().map((ending) => `.${ending}`).join();
    if (!store.openScene.georeferenced) $("save-geojson").remove(); // it lies on the map
  });
  // A download that fails must say why instead of saving the error as a file.
  for (const link of document.querySelectorAll(".links a")) {
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      if (link.ariaBusy === "true") return;
      const done = tellProgress(link, ["save-map", "save-model"].includes(link.id));
      await save(link.getAttribute("href") ?? "");
      done();
    });
  }
  /**
   * Say in place of a link's name what its file waits for: map and model are those of the final
   * fit, which may be under way. Returns what brings the name back.
   *
   * @param {Element} link
   * @param {boolean} fits
   */
  function tellProgress(link, fits) {
    const name = link.textContent;
    let share = 0;
    const say = () => {
      link.textContent = !fits || store.settled ? "writing…" : share ? `mapping ${percent(share, 0)}` : "fitting…";
    };
    /** @param {Event} event */
    const progress = (event) => { ({ share } = /** @type {CustomEvent} */ (event).detail); say(); };
    link.ariaBusy = "true";
    say();
    store.addEventListener("progress", progress);
    store.addEventListener("map", say);
    return () => {
      store.removeEventListener("progress", progress);
      store.removeEventListener("map", say);
      link.ariaBusy = null;
      link.textContent = name;
    };
  }
  /** @param {string} path */
  async function save(path) {
    try {
      const answer = await store.ask(path);
      const name = /filename="([\w.]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1] ?? "polyad";
      const address = URL.createObjectURL(await answer.blob());
      el("a", { href: address, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
      toast(`${name} saved`, "fine");
    } catch (error) { toast(messageOf(error)); }
  }
  $("load").addEventListener("change", async () => {
    const files = [...$("load").files ?? []];
    $("load").value = "";
    if (!files.length) return;
    // One file of labels, and those that belong to it, such as the parts of a Shapefile.
    const [kinds, others] = store.openScene.uploads;
    const endingOf = (/** @type {File} */ file) => file.name.split(".").pop()?.toLowerCase() ?? "";
    const [first, ...more] = files.filter((file) => kinds.includes(endingOf(file)));
    const main = first ?? files[0];
    if (more.length) {
      toast(`Choose one file of labels at a time: ${main.name} or ${more[0].name}.`);
      return;
    }
    const beside = files.filter((file) => file !== main && others.includes(endingOf(file)));
    const sizes = beside.map((file) => `${endingOf(file)}:${file.size}`).join();
    toast(`Reading ${main.name}…`, "busy");
    try {
      const path = `api/labels/${encodeURIComponent(endingOf(main))}?beside=${encodeURIComponent(sizes)}`;
      /** @type {Change} */
      const change = await store.call(path, { method: "POST", body: new Blob([main, ...beside]) });
      store.apply(change);
      const lost = change.skipped ? `; ${change.skipped} without data were left out` : "";
      toast(`${change.labels.length} labels loaded${lost}`, "fine");
    } catch (error) { toast(messageOf(error)); }
  });
  return { save };
}
