// What the server tells the page (src/polyad/app), and the elements that the scripts reach by id.

type Pixel = [row: number, col: number];
type Bands = number[];
type Draw = CanvasRenderingContext2D;

interface Scene {
  name: string;
  width: number;
  height: number;
  bands: number;
  wavelength: (number | null)[] | null; // nm
  false_color: Bands;
  true_color: Bands;
  tile: number; // pixels of a tile's side
  levels: number; // of the pyramid of tiles
  georeferenced: boolean;
  transform: number[] | null; // from column and row to map coordinates
  crs: string; // its name and code
  unit: string; // of map coordinates
  truth: boolean;
  large: boolean; // what is in view is mapped first
  uncertainty_ramp: [at: number, rgba: [number, number, number, number]][];
  journal: string;
  uploads: [kinds: string[], beside: string[]]; // endings of files of labels, and of what belongs to them
}

interface ClassInfo {
  value: number;
  name: string;
  color: string;
}

// A class that was deleted comes without name and color.
type ClassChange = ClassInfo | { value: number; name: null; color: null };

interface Change {
  before: number; // the revision that this change follows
  revision: number;
  undo: boolean;
  redo: boolean;
  labels: [row: number, col: number, value: number][]; // 0: the label was erased
  classes: ClassChange[];
  skipped?: number; // pixels without data
}

interface Score {
  overall: number;
  average: number;
  no_overlap: number | null;
  pixels: number;
  classes: string;
}

// The first part of the first map knows its share alone.
interface MapState {
  version: number;
  revision?: number;
  stage: "none" | "draft" | "final";
  share?: number;
  labels?: number;
  shares?: Record<string, number>;
  score?: Score | null;
  advice?: Advice[];
  steps?: string;
}

type Advice = [row: number, col: number, uncertainty: number];

interface State {
  scene: Scene;
  revision: number;
  undo: boolean;
  redo: boolean;
  classes: ClassInfo[];
  labels: [row: number, col: number, value: number][];
  map: MapState;
  learned: number | null; // share of a large scene; null where nothing is being learned
  failed: boolean; // the last fit made no map
}

interface Spectrum {
  row: number;
  col: number;
  values: (number | null)[];
  data: boolean; // in every band
}

type Means = Record<string, { count: number; mean: (number | null)[] }>;

type Command =
  | { do: "label"; class: number; pixels: Pixel[]; stroke?: string }
  | { do: "add"; name: string }
  | { do: "change"; class: number; name?: string; color?: string }
  | { do: "delete"; class: number }
  | { do: "undo" }
  | { do: "redo" };

// A sample being checked (src/polyad/app/checklist.py).
interface CheckAnswer {
  value: number; // class, 0 without one
  unsure: boolean; // it cannot be told
  note: string;
}

interface CheckChange {
  revision: number;
  answers: [point: number, value: number, unsure: boolean, note: string][];
}

interface CheckState extends CheckChange {
  scene: Scene;
  sample: string; // names of files
  out: string;
  journal: string;
  blind: boolean;
  map: boolean; // whether there are pictures of it
  classes: ClassInfo[];
  points: Pixel[];
  mapped: number[] | null; // what the map says of each point; null when blind
}

// What happens in the store, and what it says of it.
interface StoreEvents {
  scene: object;
  classes: object;
  labels: object;
  choice: object;
  map: object;
  means: object;
  theme: object;
  online: object;
  offline: object;
  progress: { stage: string; share: number; labels: number };
  learning: { share: number | null };
  problem: { message: string };
  point: object; // another one is looked at
  answers: { points: number[] | null }; // null: all
}

type Overlay = "scene" | "map" | "uncertainty";

interface Window {
  polyad: object;
}

// Elements of index.html and check.html by id; tests/app/test_static.py keeps the two in agreement.
interface PageElements {
  learning: HTMLElementTagNameMap["span"];
  "scene-name": HTMLElementTagNameMap["span"];
  "tool-label": HTMLElementTagNameMap["button"];
  "tool-erase": HTMLElementTagNameMap["button"];
  undo: HTMLElementTagNameMap["button"];
  redo: HTMLElementTagNameMap["button"];
  next: HTMLElementTagNameMap["button"];
  status: HTMLElementTagNameMap["span"];
  theme: HTMLElementTagNameMap["button"];
  help: HTMLElementTagNameMap["button"];
  view: HTMLElementTagNameMap["canvas"];
  "zoom-in": HTMLElementTagNameMap["button"];
  "zoom-out": HTMLElementTagNameMap["button"];
  "zoom-fit": HTMLElementTagNameMap["button"];
  hint: HTMLElementTagNameMap["div"];
  "hint-text": HTMLElementTagNameMap["span"];
  "hint-label": HTMLElementTagNameMap["button"];
  "hint-swatch": HTMLElementTagNameMap["i"];
  "hint-class": HTMLElementTagNameMap["span"];
  "hint-skip": HTMLElementTagNameMap["button"];
  "hint-close": HTMLElementTagNameMap["button"];
  place: HTMLElementTagNameMap["span"];
  coordinates: HTMLElementTagNameMap["span"];
  crs: HTMLElementTagNameMap["span"];
  under: HTMLElementTagNameMap["span"];
  legend: HTMLElementTagNameMap["div"];
  "legend-ramp": HTMLElementTagNameMap["i"];
  "classes-panel": HTMLElementTagNameMap["section"];
  "label-count": HTMLElementTagNameMap["span"];
  classes: HTMLElementTagNameMap["ol"];
  "add-class": HTMLElementTagNameMap["form"];
  "new-class": HTMLElementTagNameMap["input"];
  "map-panel": HTMLElementTagNameMap["section"];
  "map-note": HTMLElementTagNameMap["span"];
  "show-scene": HTMLElementTagNameMap["button"];
  "show-map": HTMLElementTagNameMap["button"];
  "show-uncertainty": HTMLElementTagNameMap["button"];
  opacity: HTMLElementTagNameMap["input"];
  "map-how": HTMLElementTagNameMap["details"];
  "map-steps": HTMLElementTagNameMap["span"];
  "score-panel": HTMLElementTagNameMap["section"];
  "score-note": HTMLElementTagNameMap["span"];
  "score-overall": HTMLElementTagNameMap["dd"];
  "score-apart": HTMLElementTagNameMap["dd"];
  "score-average": HTMLElementTagNameMap["dd"];
  "score-curve": HTMLElementTagNameMap["canvas"];
  "spectrum-panel": HTMLElementTagNameMap["section"];
  "spectrum-note": HTMLElementTagNameMap["span"];
  spectrum: HTMLElementTagNameMap["canvas"];
  "color-panel": HTMLElementTagNameMap["details"];
  "false-color": HTMLElementTagNameMap["button"];
  "true-color": HTMLElementTagNameMap["button"];
  bands: HTMLElementTagNameMap["div"];
  low: HTMLElementTagNameMap["input"];
  high: HTMLElementTagNameMap["input"];
  "files-panel": HTMLElementTagNameMap["details"];
  "save-csv": HTMLElementTagNameMap["a"];
  "save-geojson": HTMLElementTagNameMap["a"];
  "save-tif": HTMLElementTagNameMap["a"];
  "save-map": HTMLElementTagNameMap["a"];
  "save-model": HTMLElementTagNameMap["a"];
  load: HTMLElementTagNameMap["input"];
  journal: HTMLElementTagNameMap["code"];
  keys: HTMLElementTagNameMap["dialog"];
  "keys-title": HTMLElementTagNameMap["h2"];
  "key-list": HTMLElementTagNameMap["dl"];
  toast: HTMLElementTagNameMap["div"];
  // of check.html alone
  previous: HTMLElementTagNameMap["button"];
  following: HTMLElementTagNameMap["button"];
  skip: HTMLElementTagNameMap["button"];
  "zoom-point": HTMLElementTagNameMap["button"];
  asking: HTMLElementTagNameMap["div"];
  "asking-text": HTMLElementTagNameMap["span"];
  "answer-panel": HTMLElementTagNameMap["section"];
  "answer-note": HTMLElementTagNameMap["span"];
  choices: HTMLElementTagNameMap["div"];
  cannot: HTMLElementTagNameMap["button"];
  clear: HTMLElementTagNameMap["button"];
  note: HTMLElementTagNameMap["input"];
  "points-panel": HTMLElementTagNameMap["section"];
  "points-note": HTMLElementTagNameMap["span"];
  progress: HTMLElementTagNameMap["div"];
  "progress-done": HTMLElementTagNameMap["i"];
  "list-all": HTMLElementTagNameMap["button"];
  "list-open": HTMLElementTagNameMap["button"];
  "list-unsure": HTMLElementTagNameMap["button"];
  points: HTMLElementTagNameMap["ol"];
  "points-empty": HTMLElementTagNameMap["p"];
  out: HTMLElementTagNameMap["code"];
}
