"""Digests of what polyad computes, to compare two versions of the code bit by bit.

    PYTHONPATH=old/src python tools/reference_outputs.py old.json --data FOLDER
    PYTHONPATH=new/src python tools/reference_outputs.py new.json --data FOLDER --against old.json

Each case runs commands in an empty folder, then digests the JSON they print and the decoded content
of the files they write; model files are used, but not compared. FOLDER holds Indian Pines and
UPavia_Subset.mat as downloaded, and enmap_potsdam/ (test tiles and points of EnMAP-Box).
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyogrio.raw
import rasterio
import xarray as xr

import polyad

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
VOLATILE = re.compile(r"(.*_)?seconds|versions|machine|bytes|source|history|cube_file|labels_file")


def digest(value: Any) -> str:
    """Return the SHA-256 of an array with type and shape, or of a JSON value; a short one as is."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return hashlib.sha256(f"{value.dtype}{value.shape}".encode() + value.tobytes()).hexdigest()
    text = json.dumps(value, default=lambda array: array.tolist())
    text = json.dumps(json.loads(text, object_hook=without_volatile), sort_keys=True)
    return text if len(text) <= 64 else hashlib.sha256(text.encode()).hexdigest()


def without_volatile(entries: dict[str, Any]) -> dict[str, Any]:
    """Leave out what may differ from run to run: times, versions, file sizes."""
    return {key: value for key, value in entries.items() if not VOLATILE.fullmatch(key)}


def read_file(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the decoded parts of a file; nothing if files of its format are not compared."""
    match path.suffix:
        case ".tif" | ".img" | ".png":
            with rasterio.open(path) as file:
                yield "pixels", file.read()
                yield "grid", [file.nodata, file.crs and file.crs.to_wkt(), *file.transform]
                structure = file.tags(ns="IMAGE_STRUCTURE")
                yield "layout", [file.block_shapes, file.overviews(1), structure]
                kinds = [c.name for c in file.colorinterp]
                yield "colors", [kinds, file.colormap(1) if kinds == ["palette"] else None]
                yield "names", [file.tags(), file.descriptions, *map(file.tags, file.indexes)]
        case ".nc" | ".zarr":
            with xr.open_dataset(path, mask_and_scale=False, decode_coords=False) as file:
                for name, variable in file.variables.items():
                    yield f"{name} values", np.asarray(variable.values)
                    yield f"{name} attributes", [variable.dims, variable.attrs]
        case ".gpkg" | ".geojson":
            info, _, geometry, columns = pyogrio.raw.read(path)
            yield "geometry", [info["crs"], *(wkb.hex() for wkb in geometry)]
            yield from zip(info["fields"], map(list, columns), strict=True)
        case ".csv" | ".qml" | ".hdr" | ".xml":
            yield "lines", path.read_text(encoding="utf-8").splitlines()
        case ".jsonl":
            yield "records", list(map(json.loads, path.read_text(encoding="utf-8").splitlines()))
        case ".npy":
            yield "array", np.load(path)
        case ".npz":
            yield from np.load(path).items()
        case ".onnx":
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            (entry,) = session.get_inputs()
            shape = [size if isinstance(size, int) else 16 for size in entry.shape]
            values = np.random.default_rng(0).uniform(0, 5000, shape).astype(np.float32)
            names = [output.name for output in session.get_outputs()]
            yield from zip(names, session.run(names, {entry.name: values}), strict=True)


def check_sample(folder: Path) -> Iterator[tuple[str, Any]]:
    """Give the points of sample.csv a reference class: every fifth that of the point before it."""
    head, *rows = (folder / "sample.csv").read_text(encoding="utf-8").splitlines()
    classes = [row.split(",")[head.split(",").index("map_class")] for row in rows]
    checked = [row + classes[k - (k % 5 == 0)] for k, row in enumerate(rows)]
    (folder / "checked.csv").write_text("\n".join([head, *checked]), encoding="utf-8")
    yield "points", len(rows)


def estimators(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield predictions of estimators for samples of order 1 to 4, and after saving and loading."""
    rng = np.random.default_rng(0)
    for shape, rank, solver in product(SHAPES, ("auto", 1, 3), ("joint", "alternating")):
        X = rng.normal(size=(90, *shape)).astype(np.float32)
        score = X.reshape(90, -1)[:, :4] @ rng.normal(size=(4, 3)) + 0.1 * rng.normal(size=(90, 3))
        targets = {"classes": score.argmax(axis=1), "value": score[:, 0], "values": score}
        targets["binary"] = np.where(score[:, 0] > 0, "yes", "no")
        for kind, y in targets.items():
            is_class = kind in ("classes", "binary")
            model = (polyad.RankRClassifier if is_class else polyad.RankRRegressor)(
                rank=rank, solver=solver, hidden=8, epochs=20, random_state=0
            ).fit(X[:60], y[:60])
            polyad.save(model, folder / "m.polyad")
            again = polyad.load(folder / "m.polyad")
            for method in ("predict", "predict_proba", "decision_function")[: 3 if is_class else 1]:
                name = f"order {len(shape)} rank {rank} {solver} {kind} {method}"
                yield name, getattr(model, method)(X)
                yield f"{name} loaded", getattr(again, method)(X)
        yield f"order {len(shape)} scaled", polyad.ModeStandardScaler().fit_transform(X)
        yield f"order {len(shape)} plan", str(polyad.plan_inner(shape, 8, 2, 90))


def functions(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield results of the functions of `polyad` on scenes in memory."""
    source = Path(os.environ["POLYAD_DATA"], "enmap_potsdam", "potsdam_train.tif")
    scene = polyad.select_bands(polyad.open_scene(source), "450-1300")
    labels = polyad.open_labels(source.with_name("potsdam_train_labels.tif"), scene)
    yield from [("scene", np.asarray(scene.values)), ("labels", np.asarray(labels.values))]
    chosen = {"preset": "fast", "epochs": 20, "hidden": 10}
    model = polyad.train(scene, labels, samples_per_class=10, window=3, **chosen)
    model.save(folder / "m.polyad")
    yield "evaluate", polyad.evaluate(model, scene, labels).to_dict()
    chosen |= {"pixels": np.argwhere(labels.values)[::40]}
    yield "cross_validate", polyad.cross_validate(scene, labels, **chosen).to_dict()
    loaded = polyad.SceneModel.load(folder / "m.polyad")
    for name, used in {"model": model, "loaded": loaded}.items():
        ids, proba = polyad.map_scene(used, scene, probabilities=True)
        yield f"{name} ids", np.asarray(ids.values)
        yield f"{name} probabilities", np.asarray(proba.values)
    polyad.map_file(model, scene, folder / "map.tif", tile=64)


Step = str | Callable[[Path], Iterator[tuple[str, Any]]]
SHAPES = ((12,), (6, 5), (5, 4, 3), (4, 3, 2, 3))
PRESETS, GOALS = ("fast", "best", "paper"), ("this-scene", "other-scenes")
POTSDAM = "{data}/enmap_potsdam"
SCENES = {
    "pavia": ("{data}/UPavia_Subset.mat:paviaU", "{data}/UPavia_Subset.mat:paviaU_gt"),
    "potsdam": (f"{POTSDAM}/potsdam_train.tif", f"{POTSDAM}/potsdam_train_labels.tif"),
    "indian-pines": ("indian-pines", "indian-pines"),
}
VALUES = f"{POTSDAM}/veg-cover-fraction_potsdam_point.gpkg --field vegetation_fraction"
POINTS = f"{POTSDAM}/landcover_potsdam_point.gpkg --field level_1"
GRAPHS = ("windows.onnx", "scene.onnx --whole-scene")
FORMATS = [f"--out map-{e}.{e}" for e in ("hdr", "zarr", "png", "nc", "npy")]
ALL = "--probabilities p.tif --uncertainty u.tif"
OPTIONS = {  # of polyad train, and of polyad map
    "bands": ("--bands 450-1300,1450-1800 --drop-nm 900-950 --window 7 --rank 2 --hidden 20", ""),
    "merged": ("--merge 1+2=built --objective average", "--merge 3+4=green --adapt"),
    "alternating": ("--preset fast --solver alternating --epochs 15 --seed 3", "--tile 48"),
    "folds": ("--preset fast --cross-validate", "--out-dir maps --ending .nc"),
    "box": ("--bbox 364500 5805000 367000 5809000", f"{ALL} --probability-type uint8"),
}
QUICK = ("estimators", "functions", "pavia fast other-scenes", "pavia best this-scene",
         "indian-pines paper this-scene", "regression fast other-scenes", "distributed potsdam",
         "areas", "reproduce")  # fmt: skip


def cases() -> Iterator[tuple[str, list[Step]]]:
    """Yield the steps of each case: commands as typed, or functions that give results."""
    yield from [("estimators", [estimators]), ("functions", [functions])]
    for (scene, (pixels, labels)), preset, goal in product(SCENES.items(), PRESETS, GOALS):
        train = f"train {pixels} {labels} --samples-per-class 15 --preset {preset} --goal {goal}"
        sets = "" if preset == "paper" else "--coverage 0.8"  # paper holds out no labels
        maps = [f"map model.polyad {pixels} {out}" for out in (f"{ALL} {sets}", *FORMATS)]
        evaluate = f"evaluate model.polyad {pixels} {labels} {sets}"
        yield f"{scene} {preset} {goal}", [train, *maps, evaluate]
    for scene in ("pavia", "potsdam"):
        pixels, labels = SCENES[scene]
        train = f"train {pixels} {labels} --samples-per-class 12 --window 5"
        outputs = ("--out here.tif --probabilities here-p.tif", f"{ALL} --cluster local:1")
        maps = [f"map model.polyad {pixels} --tile 64 {out}" for out in outputs]
        exports = [f"export model.polyad {graph} --network-only" for graph in GRAPHS]
        yield f"distributed {scene}", [train, *maps, *exports]
    for name, (of_train, of_map) in OPTIONS.items():
        train = f"train {pixels} {labels} --samples-per-class 12 {of_train}"
        yield f"options {name}", [train, f"map model.polyad {pixels} {of_map}"]
    for preset, goal in product(("fast", "best"), GOALS):
        half = "--task regression --bounds 0 1 --bbox 364095 5804205 366495 5809965"
        train = f"train {pixels} {VALUES} {half} --preset {preset} --goal {goal}"
        outputs = ("--uncertainty u.tif", *FORMATS[2:])  # values are not written as ENVI or Zarr
        maps = [f"map model.polyad {pixels} {out}" for out in outputs]
        evaluate = f"evaluate model.polyad {pixels} {VALUES}"
        yield f"regression {preset} {goal}", [train, *maps, evaluate]
    infos = [f"info {file}" for file in (pixels, labels, "map.tif", "model.polyad")]
    sizes = ("csv --size 60", "gpkg --margin 0.05 --allocation equal", "geojson --size 40 --blind")
    samples = [f"sample map.tif --out sample.{size}" for size in sizes]
    maps = [f"train {pixels} {POINTS} --preset fast", f"map model.polyad {pixels}"]
    yield "areas", [*maps, *infos, *samples, check_sample, "area map.tif checked.csv --out a.csv"]
    runs = "--model rank-1 cnn --noise none --samples-per-class 10 --runs 1 --epochs 3"
    yield "reproduce", [f"reproduce --scene indian-pines --out paper {runs}"]


def run_case(steps: list[Step], folder: Path) -> Iterator[tuple[str, Any]]:
    """Run the steps in a folder; yield what they print or give, then the content of the files."""
    for number, step in enumerate(steps, start=1):
        if callable(step):
            yield from step(folder)
            continue
        words = shlex.split(step.format(data=os.environ["POLYAD_DATA"]))
        command = [sys.executable, "-m", "polyad", *words, "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        printed = {"error": done.stderr} if done.returncode else json.loads(done.stdout)
        for key, value in without_volatile(printed).items():
            yield f"{number} {words[0]} {key}", value
    for path in sorted(folder.rglob("*")):
        for key, value in read_file(path):
            yield f"{path.relative_to(folder)} {key}", value


def main() -> int:
    """Write the digests; return 1 if any differs from the earlier ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=os.environ.get("POLYAD_DATA", "."))
    parser.add_argument("--quick", action="store_true", help="run the quickest cases only")
    parser.add_argument("--against", type=Path, metavar="OLD", help="digests to compare with")
    parser.add_argument("--only", default="", metavar="TEXT", help="run the cases named like this")
    given = parser.parse_args()
    if not ONE_THREAD.items() <= os.environ.items():  # to be set before numpy is loaded
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | ONE_THREAD)
    os.environ["POLYAD_DATA"] = str(given.data.resolve())
    chosen = {
        name: steps
        for name, steps in cases()
        if (name in QUICK or not given.quick) and given.only in name
    }
    digests = dict[str, str]()
    for name, steps in chosen.items():
        with tempfile.TemporaryDirectory() as folder:
            os.environ["POLYAD_CACHE"] = folder
            try:
                for key, value in run_case(steps, Path(folder)):
                    digests[f"{name}: {key}"] = digest(value)
            except Exception as error:  # a name that is gone is a difference like any other
                digests[f"{name}: error"] = f"{error!r:.200}"
    given.out.write_text(json.dumps(digests, indent=1), encoding="utf-8")
    print(f"{len(digests)} results in {sum(os.times()[:4]):.0f} s of processor time")
    old = json.loads(given.against.read_text(encoding="utf-8")) if given.against else digests
    keys = digests | {key: "" for key in old if key.split(":")[0] in chosen}
    changed = [key for key in keys if digests.get(key) != old.get(key)]
    for key in changed:
        print(f"{key}\n    was {old.get(key)}\n    is  {digests.get(key)}")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
