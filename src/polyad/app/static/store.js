// What the page knows, and its talk with the server. Labels are shown before the server answers and
// taken back if it refuses.

import { messageOf } from "./dom.js";

export class Store extends EventTarget {
  constructor() {
    super();
    /** @type {Scene | null} */
    this.scene = null;
    /** @type {Map<number, ClassInfo>} */
    this.classes = new Map(); // by id
    /** @type {Map<string, number>} */
    this.labels = new Map(); // "row,col" -> id
    this.revision = -1;
    /** @type {MapState} */
    this.map = { version: 0, stage: "none" };
    /** @type {Means} */
    this.means = {};
    this.active = 0; // class that a click gives
    this.erasing = false;
    this.undo = this.redo = false;
    this.palette = 0; // counts changes of colors
    this.pending = 0; // commands on their way
    this.settled = false; // the map is that of the final model of these labels
    this.failed = false; // the last fit made no map
    /** @type {[labels: number, accuracy: number][]} */
    this.history = [];
    /** @type {EventSource | null} */
    this.source = null;
  }

  /** Whether there are labels enough for a map that is not here yet. */
  get awaitsMap() { return this.map.stage === "none" && new Set(this.labels.values()).size > 1; }

  /** The scene, for whatever happens only once there is one. */
  get openScene() {
    if (!this.scene) throw new Error("the scene has not arrived yet");
    return this.scene;
  }

  /**
   * @template {keyof StoreEvents} Kind
   * @param {Kind} kind
   * @param {(detail: StoreEvents[Kind]) => void} act
   */
  on(kind, act) {
    this.addEventListener(kind, (event) => act(/** @type {CustomEvent} */ (event).detail));
  }

  /**
   * @template {keyof StoreEvents} Kind
   * @param {Kind} kind
   */
  tell(kind, detail = {}) { this.dispatchEvent(new CustomEvent(kind, { detail })); }

  /**
   * Ask the server for JSON.
   *
   * @param {string} path
   * @param {RequestInit} options
   * @returns {Promise<any>}
   */
  async call(path, options = {}) { return (await this.ask(path, options)).json(); }

  /**
   * An answer that is none becomes an error whose message can be shown.
   *
   * @param {string} path
   * @param {RequestInit} options
   */
  async ask(path, options = {}) {
    let answer;
    try {
      answer = await fetch(path, { cache: "no-store", ...options });
    } catch {
      throw new Error("polyad does not answer; labels already given are safe in the journal");
    }
    if (answer.ok) return answer;
    const body = await answer.json().catch(() => ({}));
    throw new Error(body.error || `the server answered ${answer.status}`);
  }

  /**
   * @param {Command} command
   * @returns {Promise<Change | null>} null if the server refused
   */
  async do(command) {
    this.pending += 1;
    try {
      /** @type {Change} */
      const change = await this.call("api/do", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(command),
      });
      this.apply(change);
      if (change.skipped) {
        const many = change.skipped > 1;
        this.tell("problem", { message: `${change.skipped} pixel${many ? "s have" : " has"} no data and `
          + `${many ? "were" : "was"} not labeled.` });
        await this.refresh(); // they were shown as labeled
      }
      return change;
    } catch (error) {
      this.tell("problem", { message: messageOf(error) });
      await this.refresh();
      return null;
    } finally {
      this.pending -= 1;
    }
  }

  /**
   * Color pixels at once; the server is told by `do`.
   *
   * @param {Pixel[]} pixels
   * @param {number} value
   */
  paint(pixels, value) {
    for (const [row, col] of pixels) this.put(row, col, value);
    this.tell("labels");
  }

  /**
   * @param {number} row
   * @param {number} col
   * @param {number} value 0 erases
   */
  put(row, col, value) {
    if (value) this.labels.set(`${row},${col}`, value);
    else this.labels.delete(`${row},${col}`);
  }

  /**
   * The same change arrives as an answer and as news; a gap means that news was missed.
   *
   * @param {Change} change
   */
  apply(change) {
    if (change.revision <= this.revision) return;
    if (change.before !== this.revision) { this.refresh(); return; }
    this.revision = change.revision;
    this.undo = change.undo;
    this.redo = change.redo;
    if (change.labels.length) this.settled = this.failed = false;
    for (const [row, col, value] of change.labels) this.put(row, col, value);
    for (const info of change.classes) {
      if (info.name === null) this.classes.delete(info.value);
      else this.classes.set(info.value, info);
    }
    if (change.classes.length) {
      this.classes = new Map([...this.classes].sort((a, b) => a[0] - b[0]));
      this.palette += 1;
      this.chooseSome();
      this.tell("classes");
    }
    this.tell("labels");
  }

  async refresh() {
    /** @type {State} */
    let state;
    try { state = await this.call("api/state"); } catch (error) {
      this.tell("problem", { message: messageOf(error) });
      return;
    }
    const first = this.scene === null;
    this.scene = state.scene;
    this.classes = new Map(state.classes.map((info) => [info.value, info]));
    this.labels = new Map(state.labels.map(([row, col, value]) => [`${row},${col}`, value]));
    this.revision = state.revision;
    this.undo = state.undo;
    this.redo = state.redo;
    this.palette += 1;
    this.chooseSome();
    if (first) this.tell("scene");
    this.tell("classes");
    this.tell("labels");
    this.tell("learning", { share: state.learned });
    this.failed = state.failed;
    this.setMap(state.map);
  }

  /** @param {MapState} map */
  setMap(map) {
    this.map = map;
    this.settled = map.stage === "final";
    const { score, labels: count = 0 } = map;
    if (score && map.stage === "final") {
      this.history = this.history.filter(([labels]) => labels < count);
      this.history.push([count, score.overall]);
    }
    this.tell("map");
    if (map.stage !== "none") this.fetchMeans();
  }

  async fetchMeans() {
    try {
      this.means = await this.call("api/means");
      this.tell("means");
    } catch { /* the next map brings them */ }
  }

  chooseSome() {
    if (!this.classes.has(this.active)) this.active = this.classes.keys().next().value ?? 0;
  }

  /** @param {number} value */
  choose(value) {
    this.active = value;
    this.erasing = false;
    this.tell("choice");
  }

  listen() {
    const source = new EventSource("api/events");
    this.source = source;
    /** @type {(kind: string, act: (news: any) => void) => void} */
    const on = (kind, act) => source.addEventListener(kind, (e) => act(JSON.parse(e.data)));
    on("hello", () => { this.tell("online"); this.refresh(); });
    on("change", (change) => this.apply(change));
    on("map", (map) => this.setMap(map));
    on("learning", (about) => this.tell("learning", about));
    on("progress", (about) => { this.settled = this.failed = false; this.tell("progress", about); });
    on("problem", (about) => { this.failed = true; this.tell("problem", about); });
    on("lost", () => this.refresh());
    on("bye", () => this.tell("offline"));
    source.onerror = () => this.tell("offline");
  }

  // A browser opens six connections to one server; a tab nobody looks at gives its own back.
  watchVisibility() {
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.source?.close();
      else if (this.source?.readyState === EventSource.CLOSED) this.listen();
    });
  }
}
