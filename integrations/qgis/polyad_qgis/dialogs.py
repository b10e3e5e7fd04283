"""The dialogs, as tables: each option with its text in QGIS and its place on the command line.

Nothing of QGIS is imported here; `algorithm.KINDS` has a parameter of Processing for each kind.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Option(NamedTuple):
    """One row of a dialog.

    Attributes
    ----------
    name : str
        As Processing calls it.
    kind : str
        Key of `algorithm.KINDS`.
    flag : str
        The option of the command, or the name of its argument. Rows with the same flag are
        mutually exclusive alternatives.
    text : str
        What the dialog shows.
    needed : bool
        Whether the row, or one of its alternatives, must be filled in.
    advanced : bool
        Whether the dialog shows it on demand only.
    default : object
        What the dialog begins with.
    limits : tuple
        The choices, the smallest number, or the file filter, by kind.
    parent : str
        The row whose layer a field belongs to; without that layer the row is not used.
    """

    name: str
    kind: str
    flag: str
    text: str
    needed: bool = False
    advanced: bool = False
    default: Any = None
    limits: tuple[Any, ...] = ()
    parent: str = ""

    @property
    def what(self) -> str:
        """What the row and its alternatives give, for an error message."""
        return self.flag.lstrip("-")

    @property
    def way(self) -> str:
        """How the row gives it, for an error message."""
        return {"raster": "raster layer", "vector": "vector layer"}.get(self.kind, self.kind)


class Dialog(NamedTuple):
    """One algorithm of the toolbox: its command with what is always said, its texts, its rows."""

    command: str
    title: str
    help: str
    options: tuple[Option, ...]
    fixed: tuple[str, ...] = ()


PRESETS = ("best", "fast", "paper")
GOALS = ("this-scene", "other-scenes")
HTML = ("HTML files (*.html)",)

SCENE = (
    Option("SCENE", "raster", "scene", "Scene", needed=True),
    Option(
        "SCENE_FILE", "file", "scene",
        "Scene file, instead of a layer (PRISMA, EMIT, EnMAP, MATLAB)", needed=True, advanced=True,
    ),
)  # fmt: skip
TOUCHED = Option(
    "ALL_TOUCHED", "flag", "--all-touched", "Label every pixel that a polygon touches",
    advanced=True, parent="LABELS",
)  # fmt: skip
LAYER = Option("LABELS_LAYER", "layer", "--layer", "", parent="LABELS")
FIELD = Option("FIELD", "field", "--field", "Field with the classes", parent="LABELS")
LABELS = (
    Option("LABELS", "vector", "labels", "Labels: vector layer", needed=True),
    FIELD,
    Option(
        "LABEL_RASTER", "raster", "labels", "Labels: raster, instead of a vector layer", needed=True
    ),
    LAYER,
    TOUCHED,
)
VALUES = (
    Option("LABELS", "vector", "labels", "Measured values: vector layer", needed=True),
    Option("FIELD", "numbers", "--field", "Fields with the values", parent="LABELS"),
    Option(
        "LABEL_RASTER", "raster", "labels", "Measured values: raster, instead of a vector layer",
        needed=True,
    ),
    LAYER,
    TOUCHED,
)  # fmt: skip
MODEL = Option("MODEL", "file", "model", "Model", needed=True, limits=("polyad",))
PRESET = (
    Option("PRESET", "choice", "--preset", "Preset", default="best", limits=PRESETS),
    Option(
        "GOAL", "choice", "--goal", "Scenes to map", default="this-scene",
        limits=GOALS,
    ),
)  # fmt: skip
WINDOW = Option(
    "WINDOW", "integer", "--window", "Side of the window around a pixel; odd", advanced=True,
    limits=(1,),
)  # fmt: skip
SEED = Option("SEED", "integer", "--seed", "Random seed", advanced=True, limits=(0,))
FORCE = Option(
    "FORCE", "flag", "--force", "Overwrite existing files not written by polyad", advanced=True
)
REPORT = Option("REPORT", "file out", "--report", "Report", limits=HTML)
TRAINED = (
    FORCE,
    Option(
        "OUTPUT", "file out", "--out", "Model", needed=True, limits=("polyad models (*.polyad)",)
    ),
    REPORT,
)
CLASS_MAP = Option("MAP", "raster", "map", "Class map", needed=True)
STRATA = (
    Option("STRATA", "raster", "--strata", "Strata: raster; default: the classes of the map",
           advanced=True),
    Option("STRATA_POLYGONS", "vector", "--strata", "Strata: polygons, instead of a raster",
           advanced=True),
)  # fmt: skip

DIALOGS = {
    "label": Dialog(
        "label",
        "Label",
        "Opens polyad's labeling page on a scene, in the browser and on this machine alone: click "
        "pixels of each class, and the map is updated with every click. The address of the page "
        "is in the log. Existing labels can be loaded first.\n\n"
        "The page is served until Cancel is pressed. Labels are saved in a file beside the scene; "
        "download them from the page as GeoJSON or GeoTIFF, and the map or the model, to use them "
        "in QGIS.",
        (
            *SCENE,
            *(o._replace(flag=o.flag.replace("labels", "--labels"), needed=False) for o in LABELS),
            *PRESET,
            Option("BROWSER", "unless", "--no-browser", "Open the page in the browser",
                   default=True),
        ),
    ),
    "train": Dialog(
        "train",
        "Train",
        "Fits a model on the labeled pixels of a hyperspectral scene and writes it to a file, for "
        "Map and Evaluate.\n\n"
        "Labels are points, lines or polygons with a field that holds the class, in any reference "
        "system, or a raster of classes on the grid of the scene with 0 where nothing is labeled. "
        "A vector layer with unsaved edits or a filter is used as it is shown.\n\n"
        "Presets: best gives the most accurate map from a few labels, of this scene or of other "
        "scenes; where it does not fit in memory, fast is used, and the log says so. fast is the "
        "network alone; paper is the network as it was published.",
        (
            *SCENE,
            *LABELS,
            *PRESET,
            Option(
                "SAMPLES_PER_CLASS", "integer", "--samples-per-class",
                "Training pixels per class (half of any smaller class); the rest is for Evaluate",
                advanced=True, limits=(1,),
            ),
            Option("RANK", "integer", "--rank", "Rank of the weights of each hidden unit",
                   advanced=True, limits=(1,)),
            WINDOW,
            SEED,
            *TRAINED,
        ),
    ),
    "train_regression": Dialog(
        "train",
        "Train regression",
        "Fits a model that predicts numbers, such as vegetation cover or biomass, from measured "
        "values at some pixels of a scene, and writes it to a file, for Map and Evaluate.\n\n"
        "Values are points, lines or polygons with a numeric field, or several, in any reference "
        "system, or a raster of values on the grid of the scene.",
        (
            *SCENE,
            *VALUES,
            Option("BOUNDS", "range", "--bounds", "Valid range of the values, e.g. 0 to 1 for a "
                   "fraction"),
            Option("UNITS", "text", "--units", "Units; separated by commas if there are several "
                   "fields"),
            *PRESET,
            WINDOW,
            SEED,
            *TRAINED,
        ),
        fixed=("--task", "regression"),
    ),
    "map": Dialog(
        "map",
        "Map",
        "Maps every pixel of a scene with a model that Train has written, tile by tile, in as "
        "little memory as a tile needs. A class map is a GeoTIFF with class names and colors, and "
        "is shown with them; a regression model gives a GeoTIFF with a band for each target.\n\n"
        "Optional rasters: the probability of each class, one band for each, and the uncertainty "
        "of each pixel, as one minus the largest probability, margin and entropy; of a regression "
        "model, the standard deviation.",
        (
            MODEL,
            *SCENE,
            FORCE,
            Option("OUTPUT", "raster out", "--out", "Map", needed=True),
            Option("PROBABILITIES", "raster out", "--probabilities", "Probability of each class"),
            Option("UNCERTAINTY", "raster out", "--uncertainty", "Uncertainty"),
        ),
    ),
    "evaluate": Dialog(
        "evaluate",
        "Evaluate",
        "Scores a model on labeled pixels. On the scene that it was trained on, its training "
        "pixels are left out, so train with a number of pixels per class, or use other labels.\n\n"
        "The report is a page with the map, the confusion matrix, spectra and calibration; for a "
        "regression model, with predicted against measured values.",
        (
            MODEL,
            *SCENE,
            *LABELS,
            FORCE,
            REPORT,
            Option("SCORES", "file out", "--out", "Scores",
                   limits=("JSON files (*.json);;CSV files (*.csv)",)),
        ),
    ),
    "sample": Dialog(
        "sample",
        "Draw a sample to check",
        "Draws a stratified random sample of the pixels of a class map, to be checked on the "
        "ground or on finer images: fill in the field reference of each point with the true "
        "class, by name or id, and run Estimate areas.\n\n"
        "Give the number of points, or the margin of error of the overall accuracy (95 %) from "
        "which it follows.",
        (
            CLASS_MAP,
            Option("SIZE", "integer", "--size", "Number of points", limits=(1,)),
            Option("MARGIN", "number", "--margin",
                   "Or: margin of error of the overall accuracy, e.g. 0.03", limits=(0,)),
            Option("ALLOCATION", "choice", "--allocation", "Allocation of the points to strata",
                   default="proportional", limits=("proportional", "equal", "optimal")),
            Option("MINIMUM", "integer", "--minimum", "Least number of points in each stratum",
                   limits=(1,)),
            Option("BLIND", "flag", "--blind", "Leave the class of the map out of the file"),
            *STRATA,
            SEED,
            FORCE,
            Option("OUTPUT", "vector out", "--out", "Sample", needed=True),
        ),
    ),
    "area": Dialog(
        "area",
        "Estimate areas",
        "Estimates the area of each class of a map with 95 % intervals, and user's and producer's "
        "accuracy, from a sample that was checked. The table is in the log; the report has the "
        "error matrix as well.\n\n"
        "A layer of points with unsaved edits is used as it is shown.",
        (
            CLASS_MAP,
            Option("POINTS", "vector", "points", "Checked points", needed=True),
            Option("FIELD", "field", "--field", "Field with the true class", default="reference",
                   parent="POINTS"),
            Option("POINTS_LAYER", "layer", "--layer", "", parent="POINTS"),
            Option("SKIP_EMPTY", "flag", "--skip-empty", "Leave out points without a class"),
            Option("DESIGN", "choice", "--design", "How the points were drawn",
                   default="stratified", limits=("stratified", "random")),
            *STRATA,
            FORCE,
            REPORT,
            Option("TABLE", "file out", "--out", "Table of areas",
                   limits=("CSV files (*.csv);;JSON files (*.json)",)),
        ),
    ),
}  # fmt: skip
