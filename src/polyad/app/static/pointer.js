// Mouse, pen and fingers on the scene. A mouse labels by click or drag; a finger labels by a tap,
// moves the scene by dragging, and zooms with a second finger.

const TAP = 8; // CSS pixels a finger may slip in a tap
const FLUSH = 80; // ms between two messages of one stroke

/**
 * @typedef {import("./store.js").Store} Store
 * @typedef {import("./viewer.js").Viewer} Viewer
 * @typedef {[x: number, y: number]} Point
 * @typedef {{id: string, value: number, last: Pixel, unsent: Pixel[],
 *            timer?: ReturnType<typeof setTimeout>}} Stroke
 */

/**
 * The pixels from one to another, both included (Bresenham).
 *
 * @param {Pixel} from
 * @param {Pixel} to
 */
function line([r0, c0], [r1, c1]) {
  /** @type {Pixel[]} */
  const pixels = [];
  const dr = Math.abs(r1 - r0), dc = Math.abs(c1 - c0);
  const sr = r0 < r1 ? 1 : -1, sc = c0 < c1 ? 1 : -1;
  let error = dc - dr, r = r0, c = c0;
  for (;;) {
    pixels.push([r, c]);
    if (r === r1 && c === c1) return pixels;
    const twice = 2 * error;
    if (twice > -dr) { error -= dr; c += sc; }
    if (twice < dc) { error += dc; r += sr; }
  }
}

export class Pointer {
  /**
   * @param {Viewer} viewer
   * @param {Store} store
   * @param {{onHover: (row: number, col: number) => void, onNothing: () => void}} acts
   */
  constructor(viewer, store, { onHover, onNothing }) {
    this.viewer = viewer;
    this.store = store;
    this.onHover = onHover;
    this.onNothing = onNothing;
    /** @type {Map<number, {start: Point, now: Point}>} */
    this.fingers = new Map(); // by pointer
    this.tapping = false;
    /** @type {{gap: number, x: number, y: number} | null} */
    this.pinch = null;
    /** @type {Stroke | null} */
    this.stroke = null;
    /** @type {Point | null} */
    this.panning = null;
    const { canvas } = viewer;
    canvas.addEventListener("pointerdown", (e) => this.down(e));
    canvas.addEventListener("pointermove", (e) => this.move(e));
    canvas.addEventListener("pointerup", (e) => this.up(e));
    canvas.addEventListener("pointercancel", (e) => this.up(e));
    canvas.addEventListener("pointerleave", () => { viewer.hover = null; viewer.draw(); });
    canvas.addEventListener("contextmenu", (e) => e.preventDefault());
    canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
  }

  /**
   * Where on the canvas.
   *
   * @param {MouseEvent} event
   * @returns {Point}
   */
  at(event) {
    const box = this.viewer.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** @param {PointerEvent} event */
  value(event) { return event.shiftKey || this.store.erasing ? 0 : this.store.active; }

  /** @param {PointerEvent} event */
  down(event) {
    if (!this.store.scene) return;
    this.viewer.canvas.focus({ preventScroll: true });
    this.viewer.canvas.setPointerCapture(event.pointerId);
    this.viewer.cursor.shown = false;
    if (event.pointerType === "touch") {
      this.fingers.set(event.pointerId, { start: this.at(event), now: this.at(event) });
      this.pinch = this.spread();
      this.tapping = this.fingers.size === 1;
      return;
    }
    if (event.button !== 0 || event.ctrlKey || event.altKey) {
      this.panning = this.at(event);
      return;
    }
    const pixel = this.viewer.pixel(...this.at(event));
    if (pixel) this.begin(pixel, this.value(event));
  }

  /** @param {PointerEvent} event */
  move(event) {
    if (!this.store.scene) return;
    const [x, y] = this.at(event);
    if (event.pointerType === "touch") { this.slide(event, x, y); return; }
    if (this.panning) {
      this.viewer.pan(x - this.panning[0], y - this.panning[1]);
      this.panning = [x, y];
      return;
    }
    const pixel = this.viewer.pixel(x, y);
    this.hover(pixel);
    if (this.stroke && pixel) this.extend(this.stroke, pixel);
  }

  /** @param {Pixel | null} pixel */
  hover(pixel) {
    const { viewer } = this;
    if (String(pixel) === String(viewer.hover)) return;
    viewer.hover = pixel;
    if (pixel) { viewer.cursor.shown = false; this.onHover(...pixel); }
    viewer.draw();
  }

  /** @param {PointerEvent} event */
  up(event) {
    if (event.pointerType === "touch") {
      const finger = this.fingers.get(event.pointerId);
      this.fingers.delete(event.pointerId);
      this.pinch = this.spread();
      if (!finger || !this.tapping || event.type === "pointercancel") return;
      const pixel = this.viewer.pixel(...finger.now);
      if (pixel) { this.onHover(...pixel); this.begin(pixel, this.value(event)); this.end(); }
      return;
    }
    this.panning = null;
    this.end();
  }

  // -- fingers ----------------------------------------------------------------------------------

  spread() {
    if (this.fingers.size !== 2) return null;
    const [a, b] = [...this.fingers.values()].map((finger) => finger.now);
    return { gap: Math.hypot(a[0] - b[0], a[1] - b[1]), x: (a[0] + b[0]) / 2, y: (a[1] + b[1]) / 2 };
  }

  /**
   * @param {PointerEvent} event
   * @param {number} x
   * @param {number} y
   */
  slide(event, x, y) {
    const finger = this.fingers.get(event.pointerId);
    if (!finger) return;
    const before = finger.now;
    finger.now = [x, y];
    if (Math.hypot(x - finger.start[0], y - finger.start[1]) > TAP) this.tapping = false;
    const now = this.spread();
    if (this.pinch && now) {
      this.tapping = false;
      this.viewer.pan(now.x - this.pinch.x, now.y - this.pinch.y);
      this.viewer.zoom(now.gap / Math.max(this.pinch.gap, 1), now.x, now.y);
      this.pinch = now;
    } else if (!this.tapping) {
      this.viewer.pan(x - before[0], y - before[1]);
    }
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!this.store.scene) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.viewer.zoom(Math.exp(-event.deltaY * lines * 0.0018), ...this.at(event));
  }

  // -- strokes ----------------------------------------------------------------------------------

  /**
   * @param {Pixel} pixel
   * @param {number} value
   */
  begin(pixel, value) {
    if (!value && !this.store.erasing && !this.store.classes.size) { this.onNothing(); return; }
    // Some browsers have randomUUID on this machine and over https alone.
    const id = "randomUUID" in crypto ? crypto.randomUUID() : String(Math.random());
    this.stroke = { id, value, last: pixel, unsent: [] };
    this.extend(this.stroke, pixel);
    this.flush(this.stroke);
  }

  /**
   * @param {Stroke} stroke
   * @param {Pixel} pixel
   */
  extend(stroke, pixel) {
    const { store } = this;
    const fresh = line(stroke.last, pixel).filter(
      ([row, col]) => (store.labels.get(`${row},${col}`) ?? 0) !== stroke.value);
    stroke.last = pixel;
    if (!fresh.length) return;
    store.paint(fresh, stroke.value);
    stroke.unsent.push(...fresh);
    stroke.timer ??= setTimeout(() => this.flush(stroke), FLUSH);
  }

  /** @param {Stroke} stroke */
  flush(stroke) {
    clearTimeout(stroke.timer);
    stroke.timer = undefined;
    if (!stroke.unsent.length) return;
    const pixels = stroke.unsent.splice(0);
    this.store.do({ do: "label", class: stroke.value, pixels, stroke: stroke.id });
  }

  end() {
    if (this.stroke) this.flush(this.stroke);
    this.stroke = null;
  }
}
