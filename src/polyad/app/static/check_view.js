// The scene with the points of a sample on it: the one that is asked about is outlined.

import { Pointer } from "./pointer.js";
import { Viewer } from "./viewer.js";

/**
 * @typedef {import("./check_store.js").CheckStore} CheckStore
 * @typedef {[x: number, y: number]} Point
 */

const REACH = 9; // CSS pixels around a point that count as a click on it

export class CheckViewer extends Viewer {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {CheckStore} store
   */
  constructor(canvas, store) {
    super(canvas, store);
    this.checks = store;
    /** @type {Overlay} */
    this.overlay = "scene";
    this.opacity = 0.6;
  }

  /**
   * Small marks, so that what is there can be seen.
   *
   * @param {Draw} context
   * @param {number} width
   * @param {number} height
   */
  drawLabels(context, width, height) {
    const { sample, answers, classes, current } = this.checks;
    if (!sample) return;
    sample.points.forEach(([row, col], k) => {
      const [x, y] = this.rect(row + 0.5, col + 0.5);
      if (k === current || x < -9 || y < -9 || x > width + 9 || y > height + 9) return;
      const color = classes.get(answers[k].value)?.color;
      context.beginPath();
      context.arc(x, y, 4, 0, 2 * Math.PI);
      context.lineWidth = 3;
      context.strokeStyle = "rgba(0,0,0,0.7)";
      context.stroke();
      context.lineWidth = 1.5;
      context.strokeStyle = "#ffffff";
      context.stroke();
      if (color || answers[k].unsure) {
        context.fillStyle = color ?? "#888888";
        context.fill();
      }
    });
  }

  /** @param {Draw} context */
  drawAdvice(context) {
    const { sample, current } = this.checks;
    if (!sample) return;
    const [row, col] = sample.points[current];
    const [x, y, side] = this.rect(row, col);
    const grown = Math.max(side, 9), shift = (grown - side) / 2;
    const [left, top, right, bottom] = [x - shift, y - shift, x - shift + grown, y - shift + grown];
    const [midX, midY] = [(left + right) / 2, (top + bottom) / 2];
    context.beginPath();
    context.rect(left - 1.5, top - 1.5, grown + 3, grown + 3); // around the pixel, not over it
    for (const [fromX, fromY, toX, toY] of [
      [midX, top - 6, midX, top - 20], [midX, bottom + 6, midX, bottom + 20],
      [left - 6, midY, left - 20, midY], [right + 6, midY, right + 20, midY],
    ]) { context.moveTo(fromX, fromY); context.lineTo(toX, toY); }
    context.lineWidth = 5;
    context.strokeStyle = "rgba(0,0,0,0.75)";
    context.stroke();
    context.lineWidth = 2.5;
    context.strokeStyle = "#ffd23f";
    context.stroke();
  }

  /**
   * The point at a place of the canvas, or null.
   *
   * @param {number} x
   * @param {number} y
   */
  pointAt(x, y) {
    let best = null, least = Math.max(REACH, this.scale / 2);
    this.checks.openSample.points.forEach(([row, col], k) => {
      const [px, py] = this.rect(row + 0.5, col + 0.5);
      const apart = Math.hypot(px - x, py - y);
      if (apart < least) [best, least] = [k, apart];
    });
    return best;
  }
}

// A drag moves the scene, a click or tap on a point goes to it.
export class CheckPointer extends Pointer {
  /**
   * @param {CheckViewer} viewer
   * @param {CheckStore} store
   * @param {{onHover: (row: number, col: number) => void, onPick: (point: number) => void}} acts
   */
  constructor(viewer, store, { onHover, onPick }) {
    super(viewer, store, { onHover, onNothing: () => {} });
    this.points = viewer;
    this.onPick = onPick;
    /** @type {Point | null} */
    this.pressed = null;
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.pointerType === "touch" || event.button !== 0 || !this.store.scene) {
      super.down(event);
      return;
    }
    this.viewer.canvas.focus({ preventScroll: true });
    this.viewer.canvas.setPointerCapture(event.pointerId);
    this.panning = this.pressed = this.at(event);
  }

  /** @param {PointerEvent} event */
  up(event) {
    const { pressed } = this;
    this.pressed = null;
    super.up(event);
    if (!pressed) return;
    const [x, y] = this.at(event);
    if (Math.hypot(x - pressed[0], y - pressed[1]) < 4) this.pick(x, y);
  }

  /** @param {Pixel} pixel */
  begin(pixel) { // a tap
    const [x, y] = this.viewer.rect(pixel[0] + 0.5, pixel[1] + 0.5);
    this.pick(x, y);
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  pick(x, y) {
    const point = this.points.pointAt(x, y);
    if (point !== null) this.onPick(point);
  }
}
