// The scene on a canvas: tiles, map, labels, advice, cursor. Positions are (row, col) of the scene;
// `scale` is how many CSS pixels a scene pixel takes.

import { themeColor, sharpen } from "./dom.js";
import { grayed } from "./gray.js";

const MAX_SCALE = 64;
const MAX_TILES = 400;
const RIM = 110; // CSS pixels beside the scene, so that no banner or button lies over its edge

/** @typedef {import("./store.js").Store} Store */

export class Viewer {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Store} store
   */
  constructor(canvas, store) {
    this.canvas = canvas;
    this.store = store;
    this.scale = 1;
    this.left = 0; // scene column at the canvas's left edge
    this.top = 0;
    this.moved = false; // by the user; else the whole scene stays in view
    /** @type {Overlay} */
    this.overlay = "map";
    this.opacity = 0.8;
    this.hidden = false; // while the key is held
    this.cursor = { row: 0, col: 0, shown: false, used: false };
    /** @type {Pixel | null} */
    this.hover = null;
    /** @type {Pixel | null} */
    this.suggested = null; // the pixel to click next
    /** @type {Bands} */
    this.bands = [0, 0, 0];
    this.stretch = [2, 98];
    /** @type {Map<string, HTMLImageElement>} */
    this.tiles = new Map(); // by url
    /** @type {Map<string, string>} */
    this.lastGood = new Map(); // layer and place -> url that was drawn last
    this.shownVersion = -1; // of the oldest tile of the map in view: what a stopwatch waits for
    this.waiting = false;
    new ResizeObserver(() => { this.resized(); }).observe(canvas);
  }

  // -- where things are -------------------------------------------------------------------------

  get size() { return [this.canvas.clientWidth, this.canvas.clientHeight]; }

  resized() {
    if (!this.moved) this.fit();
    this.draw();
  }

  fit() {
    if (!this.store.scene) return;
    const { width, height } = this.store.scene;
    const [w, h] = this.size;
    this.scale = Math.min(w / width, h / height) * 0.96;
    this.left = (width - w / this.scale) / 2;
    this.top = (height - h / this.scale) / 2;
    this.moved = false;
    this.draw();
  }

  /** @param {number} factor */
  zoom(factor, x = this.size[0] / 2, y = this.size[1] / 2) {
    if (!this.store.scene) return;
    const { width, height } = this.store.scene;
    const least = Math.min(this.size[0] / width, this.size[1] / height) * 0.5;
    const scale = Math.min(Math.max(this.scale * factor, least), MAX_SCALE);
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
    this.clamp();
  }

  /**
   * @param {number} dx
   * @param {number} dy
   */
  pan(dx, dy) {
    this.left -= dx / this.scale;
    this.top -= dy / this.scale;
    this.clamp();
  }

  clamp() {
    const { width, height } = this.store.openScene;
    const [w, h] = this.size.map((v) => v / this.scale);
    this.left = Math.min(Math.max(this.left, -w / 2), width - w / 2);
    this.top = Math.min(Math.max(this.top, -h / 2), height - h / 2);
    this.moved = true;
    this.draw();
  }

  /**
   * Bring a pixel to the middle, or as near to it as a view full of scene allows.
   *
   * @param {number} row
   * @param {number} col
   */
  center(row, col, scale = this.scale) {
    const { width, height } = this.store.openScene;
    this.scale = scale;
    const [w, h] = this.size.map((v) => v / scale);
    const rim = RIM / scale;
    /** @type {(at: number, seen: number, all: number) => number} */
    const place = (at, seen, all) => (seen >= all + 2 * rim ? (all - seen) / 2
      : Math.min(Math.max(at + 0.5 - seen / 2, -rim), all + rim - seen));
    this.left = place(col, w, width);
    this.top = place(row, h, height);
    this.clamp();
  }

  /**
   * The pixel under a point of the canvas, or null outside the scene.
   *
   * @param {number} x
   * @param {number} y
   * @returns {Pixel | null}
   */
  pixel(x, y) {
    const row = Math.floor(this.top + y / this.scale);
    const col = Math.floor(this.left + x / this.scale);
    const { width, height } = this.store.openScene;
    return row >= 0 && col >= 0 && row < height && col < width ? [row, col] : null;
  }

  /**
   * The canvas rectangle of a pixel.
   *
   * @param {number} row
   * @param {number} col
   */
  rect(row, col) {
    return [(col - this.left) * this.scale, (row - this.top) * this.scale, this.scale];
  }

  /** The rows and columns in view, and how large a pixel is drawn. */
  view() {
    const { width, height } = this.store.openScene;
    const [w, h] = this.size.map((v) => v / this.scale);
    /** @type {(from: number, length: number, all: number) => [number, number]} */
    const span = (from, length, all) => {
      const first = Math.min(Math.max(Math.floor(from), 0), all - 1);
      return [first, Math.min(Math.max(Math.ceil(from + length), first + 1), all)];
    };
    return { rows: span(this.top, h, height), cols: span(this.left, w, width), scale: this.scale };
  }

  /**
   * @param {number} row
   * @param {number} col
   */
  reveal(row, col) {
    const [x, y] = this.rect(row, col);
    const [w, h] = this.size;
    if (x < 20 || y < 20 || x > w - 20 || y > h - 20) this.center(row, col);
    else this.draw();
  }

  // -- tiles ------------------------------------------------------------------------------------

  /**
   * @param {Overlay} layer
   * @param {number} level
   * @param {number} row
   * @param {number} col
   */
  url(layer, level, row, col) {
    const { store } = this;
    if (layer === "scene") {
      const [r, g, b] = this.bands;
      const [low, high] = this.stretch;
      return `api/scene/${level}/${row}/${col}?r=${r}&g=${g}&b=${b}&low=${low}&high=${high}`;
    }
    const mark = layer === "map" ? `${store.map.version}.${store.palette}` : store.map.version;
    return `api/${layer}/${level}/${row}/${col}?v=${mark}`;
  }

  /** @param {string} url */
  image(url) {
    const known = this.tiles.get(url);
    if (known) return known;
    const image = new Image();
    image.onload = () => this.draw();
    image.src = url;
    this.tiles.set(url, image);
    const [oldest] = this.tiles.keys();
    if (this.tiles.size > MAX_TILES) this.tiles.delete(oldest);
    return image;
  }

  /**
   * @param {Draw} context
   * @param {Overlay} layer
   * @param {number} alpha
   * @param {(image: HTMLImageElement) => CanvasImageSource} make
   */
  drawLayer(context, layer, alpha, make = (image) => image) {
    const scene = this.store.openScene;
    const level = Math.min(Math.max(Math.floor(Math.log2(1 / this.scale)), 0), scene.levels - 1);
    const side = scene.tile * 2 ** level;
    const [w, h] = this.size;
    const from = [Math.max(Math.floor(this.top / side), 0), Math.max(Math.floor(this.left / side), 0)];
    const to = [
      Math.min(Math.floor((this.top + h / this.scale) / side), Math.floor((scene.height - 1) / side)),
      Math.min(Math.floor((this.left + w / this.scale) / side), Math.floor((scene.width - 1) / side)),
    ];
    let oldest = Infinity;
    context.globalAlpha = alpha;
    context.imageSmoothingEnabled = this.scale < 1;
    for (let row = from[0]; row <= to[0]; row += 1) {
      for (let col = from[1]; col <= to[1]; col += 1) {
        const place = `${layer}/${level}/${row}/${col}`;
        const url = this.url(layer, level, row, col);
        /** @type {HTMLImageElement | undefined} */
        let image = this.image(url);
        if (arrived(image)) this.lastGood.set(place, url);
        else image = this.tiles.get(this.lastGood.get(place) ?? ""); // the old one until the new is here
        oldest = Math.min(oldest, versionOf(this.lastGood.get(place)));
        if (image && arrived(image)) {
          const [x, y] = this.rect(row * side, col * side);
          const step = 2 ** level * this.scale;
          context.drawImage(make(image), x, y, image.naturalWidth * step, image.naturalHeight * step);
        }
      }
    }
    context.globalAlpha = 1;
    if (layer === "map") this.shownVersion = Number.isFinite(oldest) ? oldest : -1;
  }

  // -- drawing ----------------------------------------------------------------------------------

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    if (!this.store.scene) return;
    const { context, width, height } = sharpen(this.canvas);
    context.fillStyle = themeColor("--stage");
    context.fillRect(0, 0, width, height);
    const covered = this.overlay !== "scene" && this.store.map.stage !== "none" && !this.hidden;
    this.drawLayer(context, "scene", 1, covered ? grayed : undefined);
    if (covered) this.drawLayer(context, this.overlay, this.opacity);
    if (this.scale >= 14) this.drawGrid(context, width, height);
    if (!this.hidden) this.drawLabels(context, width, height);
    if (!this.hidden) this.drawAdvice(context);
    if (this.hover && !this.cursor.shown) this.drawFrame(context, this.hover[0], this.hover[1], 1.5);
    if (this.cursor.shown) this.drawFrame(context, this.cursor.row, this.cursor.col, 2.5);
  }

  /**
   * @param {Draw} context
   * @param {number} width
   * @param {number} height
   */
  drawGrid(context, width, height) {
    context.strokeStyle = "rgba(128,128,128,0.35)";
    context.lineWidth = 1;
    context.beginPath();
    for (let x = -(this.left % 1) * this.scale; x < width; x += this.scale) {
      context.moveTo(Math.round(x) + 0.5, 0);
      context.lineTo(Math.round(x) + 0.5, height);
    }
    for (let y = -(this.top % 1) * this.scale; y < height; y += this.scale) {
      context.moveTo(0, Math.round(y) + 0.5);
      context.lineTo(width, Math.round(y) + 0.5);
    }
    context.stroke();
  }

  /**
   * @param {Draw} context
   * @param {number} width
   * @param {number} height
   */
  drawLabels(context, width, height) {
    const side = Math.max(this.scale, 5); // a label is seen from far away too
    for (const [key, value] of this.store.labels) {
      const [row, col] = key.split(",").map(Number);
      const [x, y] = this.rect(row + 0.5, col + 0.5);
      if (x < -side || y < -side || x > width + side || y > height + side) continue;
      context.fillStyle = this.store.classes.get(value)?.color ?? "#888888";
      context.fillRect(x - side / 2, y - side / 2, side, side);
      context.lineWidth = Math.min(3, 1 + side / 12);
      context.strokeStyle = "rgba(0,0,0,0.75)";
      context.strokeRect(x - side / 2, y - side / 2, side, side);
      context.lineWidth = Math.min(1.5, side / 8);
      context.strokeStyle = "#ffffff";
      context.strokeRect(x - side / 2 + 1, y - side / 2 + 1, side - 2, side - 2);
    }
  }

  /** @param {Draw} context */
  drawAdvice(context) {
    const isCurrent = (/** @type {number} */ row, /** @type {number} */ col) =>
      this.suggested?.[0] === row && this.suggested[1] === col;
    const { labels, map } = this.store;
    const others = (map.advice ?? []).slice(0, 8)
      .filter(([row, col]) => !isCurrent(row, col) && !labels.has(`${row},${col}`));
    for (const [row, col] of this.suggested ? [...others, this.suggested] : others) {
      const current = isCurrent(row, col);
      const [x, y] = this.rect(row + 0.5, col + 0.5);
      const radius = Math.max(this.scale * 0.9, current ? 11 : 7);
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      stroke(context, "rgba(0,0,0,0.7)", current ? 5 : 3.5);
      stroke(context, current ? "#ffd23f" : "#ffffff", current ? 2.5 : 1.5);
    }
  }

  /**
   * @param {Draw} context
   * @param {number} row
   * @param {number} col
   * @param {number} line
   */
  drawFrame(context, row, col, line) {
    const [x, y, side] = this.rect(row, col);
    const grown = Math.max(side, 7);
    const shift = (grown - side) / 2;
    context.beginPath();
    context.rect(x - shift, y - shift, grown, grown);
    stroke(context, "rgba(0,0,0,0.8)", line + 2);
    stroke(context, "#ffffff", line);
  }
}

// A tile that failed to arrive is complete too, but has no width.
const arrived = (/** @type {HTMLImageElement} */ image) => image.complete && image.naturalWidth > 0;

const versionOf = (/** @type {string | undefined} */ url) => Number(url?.split("v=")[1]?.split(".")[0] ?? -1);

/**
 * @param {Draw} context
 * @param {string} style
 * @param {number} width
 */
function stroke(context, style, width) {
  context.strokeStyle = style;
  context.lineWidth = width;
  context.stroke();
}
