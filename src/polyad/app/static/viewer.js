// The scene on a canvas: tiles, map, labels, advice, cursor. Positions are (row, col) of the scene;
// `scale` is how many CSS pixels a scene pixel takes.

import { colour, sharpen } from "./dom.js";
import { greyed } from "./grey.js";

const MAX_SCALE = 64;
const MAX_TILES = 400;
const RIM = 110; // CSS pixels beside the scene, so that no banner or button lies over its edge

export class Viewer {
  constructor(canvas, store) {
    this.canvas = canvas;
    this.store = store;
    this.scale = 1;
    this.left = 0; // scene column at the canvas's left edge
    this.top = 0;
    this.overlay = "map"; // scene | map | uncertainty
    this.opacity = 0.8;
    this.hidden = false; // while the key is held
    this.cursor = { row: 0, col: 0, shown: false };
    this.hover = null;
    this.suggested = null; // [row, col] of the pixel to click next
    this.bands = [0, 0, 0];
    this.stretch = [2, 98];
    this.tiles = new Map(); // url -> image
    this.lastGood = new Map(); // layer and place -> url that was drawn last
    this.waiting = false;
    new ResizeObserver(() => { this.resized(); }).observe(canvas);
  }

  // -- where things are -------------------------------------------------------------------------

  get size() { return [this.canvas.clientWidth, this.canvas.clientHeight]; }

  resized() {
    if (this.store.scene && !this.moved) this.fit();
    this.draw();
  }

  fit() {
    const { width, height } = this.store.scene;
    const [w, h] = this.size;
    this.scale = Math.min(w / width, h / height) * 0.96;
    this.left = (width - w / this.scale) / 2;
    this.top = (height - h / this.scale) / 2;
    this.moved = false;
    this.draw();
  }

  zoom(factor, x = this.size[0] / 2, y = this.size[1] / 2) {
    const { width, height } = this.store.scene;
    const least = Math.min(this.size[0] / width, this.size[1] / height) * 0.5;
    const scale = Math.min(Math.max(this.scale * factor, least), MAX_SCALE);
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
    this.clamp();
  }

  pan(dx, dy) {
    this.left -= dx / this.scale;
    this.top -= dy / this.scale;
    this.clamp();
  }

  clamp() {
    const { width, height } = this.store.scene;
    const [w, h] = this.size.map((v) => v / this.scale);
    this.left = Math.min(Math.max(this.left, -w / 2), width - w / 2);
    this.top = Math.min(Math.max(this.top, -h / 2), height - h / 2);
    this.moved = true;
    this.draw();
  }

  // Bring a pixel to the middle, or as near to it as a view full of scene allows.
  centre(row, col, scale = this.scale) {
    const { width, height } = this.store.scene;
    this.scale = scale;
    const [w, h] = this.size.map((v) => v / scale);
    const rim = RIM / scale;
    const place = (at, seen, all) => (seen >= all + 2 * rim ? (all - seen) / 2
      : Math.min(Math.max(at + 0.5 - seen / 2, -rim), all + rim - seen));
    this.left = place(col, w, width);
    this.top = place(row, h, height);
    this.clamp();
  }

  // The pixel under a point of the canvas, or null outside the scene.
  pixel(x, y) {
    const row = Math.floor(this.top + y / this.scale);
    const col = Math.floor(this.left + x / this.scale);
    const { width, height } = this.store.scene;
    return row >= 0 && col >= 0 && row < height && col < width ? [row, col] : null;
  }

  // The canvas rectangle of a pixel.
  rect(row, col) {
    return [(col - this.left) * this.scale, (row - this.top) * this.scale, this.scale];
  }

  reveal(row, col) {
    const [x, y] = this.rect(row, col);
    const [w, h] = this.size;
    if (x < 20 || y < 20 || x > w - 20 || y > h - 20) this.centre(row, col);
    else this.draw();
  }

  // -- tiles ------------------------------------------------------------------------------------

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

  image(url) {
    let image = this.tiles.get(url);
    if (!image) {
      image = new Image();
      image.onload = () => this.draw();
      image.onerror = () => { image.failed = true; };
      image.src = url;
      this.tiles.set(url, image);
      if (this.tiles.size > MAX_TILES) this.tiles.delete(this.tiles.keys().next().value);
    }
    return image;
  }

  drawLayer(context, layer, alpha, make = (image) => image) {
    const { scene } = this.store;
    const level = Math.min(Math.max(Math.floor(Math.log2(1 / this.scale)), 0), scene.levels - 1);
    const side = scene.tile * 2 ** level;
    const [w, h] = this.size;
    const from = [Math.max(Math.floor(this.top / side), 0), Math.max(Math.floor(this.left / side), 0)];
    const to = [
      Math.min(Math.floor((this.top + h / this.scale) / side), Math.floor((scene.height - 1) / side)),
      Math.min(Math.floor((this.left + w / this.scale) / side), Math.floor((scene.width - 1) / side)),
    ];
    context.globalAlpha = alpha;
    context.imageSmoothingEnabled = this.scale < 1;
    for (let row = from[0]; row <= to[0]; row += 1) {
      for (let col = from[1]; col <= to[1]; col += 1) {
        const place = `${layer}/${level}/${row}/${col}`;
        const url = this.url(layer, level, row, col);
        let image = this.image(url);
        if (image.complete && !image.failed) this.lastGood.set(place, url);
        else image = this.tiles.get(this.lastGood.get(place)); // the old one until the new is here
        if (image?.complete && !image.failed && image.naturalWidth) {
          const [x, y] = this.rect(row * side, col * side);
          const step = 2 ** level * this.scale;
          context.drawImage(make(image), x, y, image.naturalWidth * step, image.naturalHeight * step);
        }
      }
    }
    context.globalAlpha = 1;
  }

  // Whether the newest map has been drawn: what a stopwatch waits for.
  get shownVersion() {
    const url = this.lastGood.get("map/0/0/0") ?? "";
    return Number(url.split("v=")[1]?.split(".")[0] ?? -1);
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
    context.fillStyle = colour("--stage");
    context.fillRect(0, 0, width, height);
    const covered = this.overlay !== "scene" && this.store.map.stage !== "none" && !this.hidden;
    this.drawLayer(context, "scene", 1, covered ? greyed : undefined);
    if (covered) this.drawLayer(context, this.overlay, this.opacity);
    if (this.scale >= 14) this.drawGrid(context, width, height);
    if (!this.hidden) this.drawLabels(context, width, height);
    if (!this.hidden) this.drawAdvice(context);
    if (this.hover && !this.cursor.shown) this.drawFrame(context, this.hover[0], this.hover[1], 1.5);
    if (this.cursor.shown) this.drawFrame(context, this.cursor.row, this.cursor.col, 2.5);
  }

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

  drawAdvice(context) {
    const isCurrent = ([row, col]) => this.suggested?.[0] === row && this.suggested[1] === col;
    const { labels, map } = this.store;
    const others = (map.advice ?? []).slice(0, 8)
      .filter((pixel) => !isCurrent(pixel) && !labels.has(`${pixel[0]},${pixel[1]}`));
    for (const [row, col] of this.suggested ? [...others, this.suggested] : others) {
      const current = isCurrent([row, col]);
      const [x, y] = this.rect(row + 0.5, col + 0.5);
      const radius = Math.max(this.scale * 0.9, current ? 11 : 7);
      for (const [style, line] of [["rgba(0,0,0,0.7)", current ? 5 : 3.5], [current ? "#ffd23f" : "#ffffff", current ? 2.5 : 1.5]]) {
        context.beginPath();
        context.arc(x, y, radius, 0, 2 * Math.PI);
        context.strokeStyle = style;
        context.lineWidth = line;
        context.stroke();
      }
    }
  }

  drawFrame(context, row, col, line) {
    const [x, y, side] = this.rect(row, col);
    const grown = Math.max(side, 7);
    const shift = (grown - side) / 2;
    for (const [style, width] of [["rgba(0,0,0,0.8)", line + 2], ["#ffffff", line]]) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.strokeRect(x - shift, y - shift, grown, grown);
    }
  }
}
