// What the page knows, and its talk with the server. Labels are shown before the server answers and
// taken back if it refuses.

export class Store extends EventTarget {
  constructor() {
    super();
    this.scene = null;
    this.classes = new Map(); // id -> {value, name, color}
    this.labels = new Map(); // "row,col" -> id
    this.revision = -1;
    this.map = { version: 0, stage: "none" };
    this.means = {};
    this.active = 0; // class that a click gives
    this.erasing = false;
    this.undo = this.redo = false;
    this.palette = 0; // counts changes of colours
    this.pending = 0; // commands on their way
    this.history = []; // [labels, accuracy]
  }

  tell(kind, detail = {}) { this.dispatchEvent(new CustomEvent(kind, { detail })); }

  async call(path, options = {}) { return (await this.ask(path, options)).json(); }

  // An answer that is none becomes an error whose message can be shown.
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

  async do(command) {
    this.pending += 1;
    try {
      const change = await this.call("api/do", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(command),
      });
      this.apply(change);
      return change;
    } catch (error) {
      this.tell("problem", { message: error.message });
      await this.refresh();
      return null;
    } finally {
      this.pending -= 1;
    }
  }

  // Colour pixels at once; the server is told by `do`.
  paint(pixels, value) {
    for (const [row, col] of pixels) this.put(row, col, value);
    this.tell("labels");
  }

  put(row, col, value) {
    if (value) this.labels.set(`${row},${col}`, value);
    else this.labels.delete(`${row},${col}`);
  }

  // The same change arrives as an answer and as news; a gap means that news was missed.
  apply(change) {
    if (change.revision <= this.revision) return;
    if (change.before !== this.revision) { this.refresh(); return; }
    this.revision = change.revision;
    this.undo = change.undo;
    this.redo = change.redo;
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
    let state;
    try { state = await this.call("api/state"); } catch (error) {
      this.tell("problem", { message: error.message });
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
    this.setMap(state.map);
  }

  setMap(map) {
    this.map = map;
    const score = map.score;
    if (score && map.stage === "final") {
      this.history = this.history.filter(([labels]) => labels < map.labels);
      this.history.push([map.labels, score.overall]);
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

  choose(value) {
    this.active = value;
    this.erasing = false;
    this.tell("choice");
  }

  listen() {
    this.source = new EventSource("api/events");
    const on = (kind, act) => this.source.addEventListener(kind, (e) => act(JSON.parse(e.data)));
    on("hello", () => { this.tell("online"); this.refresh(); });
    on("change", (change) => this.apply(change));
    on("map", (map) => this.setMap(map));
    on("progress", (about) => this.tell("progress", about));
    on("problem", (about) => this.tell("problem", about));
    on("lost", () => this.refresh());
    on("bye", () => this.tell("offline"));
    this.source.onerror = () => this.tell("offline");
  }

  // A browser opens six connections to one server; a tab nobody looks at gives its own back.
  watchVisibility() {
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.source.close();
      else if (this.source.readyState === EventSource.CLOSED) this.listen();
    });
  }
}
