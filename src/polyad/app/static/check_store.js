// What the page knows of a sample being checked, and its talk with the server.

import { messageOf } from "./dom.js";
import { Store } from "./store.js";

/** @type {CheckAnswer} */
const NOTHING = { value: 0, unsure: false, note: "" };

export class CheckStore extends Store {
  constructor() {
    super();
    /** @type {CheckState | null} */
    this.sample = null;
    /** @type {CheckAnswer[]} */
    this.answers = []; // of each point
    this.current = 0;
    /** @type {[point: number, before: CheckAnswer][]} */
    this.given = []; // answers of this page that can be taken back
  }

  /** The sample, for whatever happens only once there is one. */
  get openSample() {
    if (!this.sample) throw new Error("the sample has not arrived yet");
    return this.sample;
  }

  /** @param {number} point */
  isOpen(point) { return !this.answers[point].value && !this.answers[point].unsure; }

  get done() { return this.answers.filter((_, k) => !this.isOpen(k)).length; }

  get unsure() { return this.answers.filter((answer) => answer.unsure).length; }

  /** @param {number} point */
  pixel(point) { return this.openSample.points[point]; }

  /**
   * The next point without an answer after one, in the order of the list and around its end.
   *
   * @param {number} from
   * @param {1 | -1} step
   */
  nextOpen(from, step = 1) {
    const n = this.answers.length;
    for (let k = 1; k <= n; k += 1) {
      const point = (from + step * k + n * k) % n;
      if (this.isOpen(point)) return point;
    }
    return null;
  }

  /** @param {number} point */
  go(point) {
    this.current = point;
    this.active = this.answers[point].value; // what was chosen for the last point leads nobody
    this.tell("point");
  }

  /**
   * Give an answer; shown before the server confirms it, taken back if it refuses.
   *
   * @param {number} point
   * @param {CheckAnswer} answer
   */
  async answer(point, answer, { remember = true } = {}) {
    const before = this.answers[point];
    this.take([[point, answer.value, answer.unsure, answer.note]]);
    this.pending += 1;
    try {
      const body = JSON.stringify({
        do: "answer", point, class: answer.value, unsure: answer.unsure, note: answer.note,
      });
      /** @type {CheckChange} */
      const change = await this.call("api/do", {
        method: "POST", headers: { "content-type": "application/json" }, body });
      this.take(change.answers);
      this.revision = Math.max(this.revision, change.revision);
      if (remember) this.given.push([point, before]);
      this.tell("labels");
      return true;
    } catch (error) {
      this.take([[point, before.value, before.unsure, before.note]]);
      this.tell("problem", { message: messageOf(error) });
      return false;
    } finally { this.pending -= 1; }
  }

  /** Take back the last answer of this page; returns its point. */
  async takeBack() {
    const last = this.given.pop();
    if (!last) return null;
    const [point, before] = last;
    await this.answer(point, before, { remember: false });
    return point;
  }

  /** @param {CheckChange["answers"]} answers */
  take(answers) {
    for (const [point, value, unsure, note] of answers) this.answers[point] = { value, unsure, note };
    this.tell("answers", { points: answers.map(([point]) => point) });
  }

  async refresh() {
    /** @type {CheckState} */
    let state;
    try { state = await this.call("api/state"); } catch (error) {
      this.tell("problem", { message: messageOf(error) });
      return;
    }
    const first = this.sample === null;
    this.sample = state;
    this.scene = state.scene;
    this.classes = new Map(state.classes.map((info) => [info.value, info]));
    this.revision = state.revision;
    this.answers = state.points.map(() => NOTHING);
    for (const [point, value, unsure, note] of state.answers) this.answers[point] = { value, unsure, note };
    /** @type {MapState} */
    this.map = { version: 1, stage: state.map ? "final" : "none" };
    if (first) {
      this.tell("scene");
      this.tell("classes");
      this.go(this.nextOpen(-1) ?? 0);
    }
    this.tell("answers", { points: null });
  }

  listen() {
    super.listen();
    this.source?.addEventListener("answer", (event) => {
      /** @type {CheckChange} */
      const change = JSON.parse(event.data);
      if (change.revision <= this.revision) return;
      this.revision = change.revision;
      this.take(change.answers);
    });
  }
}
