"""Describe a file in a few lines: a scene, a class map, labels, a spectral library or a model."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyad.errors import InputError, PolyadError, SceneError, told_as
from polyad.scene.files.paths import DEVIATION, VALUES, check_scene, is_address, locate

if TYPE_CHECKING:
    from polyad.scene.raster.sources import PixelSource
    from polyad.scene.read.formats.opening import Opened

TARGET_MAPS = {
    VALUES: "map of a regression target",
    DEVIATION: "standard deviation of a regression target",
}
Facts = dict[str, Any]  # plain values, ready for JSON
UNNAMED = 256  # classes without names at most, in a raster without bands
FEW = 64  # and in a raster of one band: a gray picture has more values
SIDE = 64  # rows and columns in the middle of a scene in which every band has data, as a rule


def describe(
    source: str,
    *,
    max_bytes: int | None = None,
    remote: bool = False,
    nodata: float | None = None,
) -> Facts:
    """Describe a file by what `polyad info` shows.

    It may hold a scene, a class map, points or polygons, a spectral library or a model. A raster of
    one band of whole numbers is a class map if its file names or colors the classes, or if it has
    few different values; one without bands is, if it has whole numbers as class ids have.

    Parameters
    ----------
    source : str
        A file, ``file:key`` (an array, or a layer), or the name of a known scene.
    max_bytes : int, optional
        Budget for opening a scene.
    remote : bool, default=False
        Whether ``source`` may be an ``https://`` address.
    nodata : float, optional
        Value that stands for "no measurement", in place of the one that the file declares.

    Returns
    -------
    dict
        Plain values only, ready for JSON.
    """
    if _is_model(Path(source)):
        return _describe_model(source)
    check_scene(source, remote=remote)
    from polyad.scene.raster.guards import memory_budget  # here: first the file must exist
    from polyad.scene.read.formats.kinds import feature_format

    (path, key), budget = locate(source), memory_budget(max_bytes)
    if path.is_file():
        if feature_format(path) is not None:
            from polyad.scene.read.features import describe_features

            return describe_features(path, key, budget)
        library = _describe_library(path)
        if library is not None:
            return library
        if path.suffix.lower() == ".mat" and key is None:
            return _describe_matlab(path, budget, nodata)
    return _describe_raster(source, budget, nodata)


def _describe_library(path: Path) -> Facts | None:
    """Describe an ENVI spectral library; None where the file is none."""
    from polyad.scene.read.formats.kinds import kind_of, load

    with suppress(SceneError):  # of an ENVI file that is damaged, its opener says more
        envi = kind_of(path).open == "envi:open_envi"
        library = load("envi:read_library")(path) if envi else None
        if library is not None:
            facts = {"kind": "spectral library", "spectra": library.spectra, "bands": library.bands}
            return facts | {"wavelength_nm": _ends(library.wavelength)}
    return None


def _describe_matlab(path: Path, budget: int, nodata: float | None) -> Facts:
    """Describe the scene or the labels of a MATLAB file, and the other arrays beside them."""
    from polyad import sandbox

    found: dict[str, tuple[int, ...]] = sandbox.run(
        "polyad.scene.read.formats.matlab:list_here", path, budget,
        name=path, limits=sandbox.Limits(budget), files=[path],
    )  # fmt: skip
    arrays = {name: shape for name, shape in found.items() if math.prod(shape) > 1}
    cubes = [shape for shape in arrays.values() if len(shape) == 3]
    facts: Facts = {"kind": f"MATLAB file with {len(cubes) or 'no'} cubes"}
    if len(cubes) < 2:
        try:
            facts = _describe_raster(str(path), budget, nodata)
        except SceneError:
            if not arrays or cubes:
                raise
    if len(arrays) > 1 or not cubes:
        facts["arrays"] = {name: " x ".join(map(str, shape)) for name, shape in arrays.items()}
    flat = [name for name, shape in arrays.items() if cubes and shape == cubes[0][:2]]
    if len(cubes) == len(flat) == 1:
        labels = _describe_class_map(f"{path}:{flat[0]}", budget, nodata, UNNAMED)
        facts |= {} if labels is None else {"labels": labels["pixels"]}
    return facts


def _describe_raster(source: str, budget: int, nodata: float | None) -> Facts:
    """Describe a scene, a class map or a map of regression targets."""
    path, key = locate(source)
    if not path.exists() and not is_address(source):
        from polyad.scene.read.scenes import opened_known

        return _describe_scene(opened_known(source), nodata)
    from polyad.scene.read.formats.kinds import open_address, open_source

    try:
        address = not path.exists()
        opened = open_address(source, budget) if address else open_source(path, key, budget)
    except SceneError:
        found = _describe_class_map(source, budget, nodata, UNNAMED)
        if found is None:
            raise
        return found
    kind, found = opened.source.dtype.kind, None
    if kind in "iu" and opened.source.shape[2] == 1:
        found = _describe_class_map(source, budget, nodata, FEW)
    elif kind == "f":
        found = _describe_target_map(path)
    return _describe_scene(opened, nodata) if found is None else found


def _describe_scene(opened: Opened, nodata: float | None) -> Facts:
    from polyad.scene.raster import guards
    from polyad.scene.raster.sources import representable

    pixels, about = opened.source, dict(opened.description)
    guards.check_extent(pixels.path, pixels.shape)
    if about.get("transform") is not None:
        guards.check_place(pixels.path, about["transform"])
    if nodata is not None:
        about["nodata"] = nodata
    value = representable(about.get("nodata"), pixels.dtype)
    if nodata is not None and value is None:
        raise InputError(f"no pixel of {pixels.dtype} can have the nodata value {nodata:g}")
    count, note, wavelength = _described_bands(pixels, about, value)
    rows, columns, _ = pixels.shape
    return {
        "kind": "scene",
        "rows": rows,
        "columns": columns,
        "bands": count,
        "values": str(pixels.dtype.newbyteorder("=")),
        "bytes": rows * columns * count * pixels.dtype.itemsize,
        "nodata": None if value is None else float(str(value)),  # the digits of its precision
        **_place(about.get("crs"), about.get("transform")),
        **({} if note is None else {"bands_left_out": note}),
        **{k: v for k, v in (about.get("attrs") or {}).items() if k == "scaling"},
        "wavelength_nm": _ends(wavelength),
    }


def _described_bands(
    pixels: PixelSource, about: dict[str, Any], nodata: Any
) -> tuple[int, str | None, Any]:
    """Return the number of usable bands, a note of those left out, and the wavelengths."""
    import numpy as np

    total, note, wavelength = pixels.shape[2], None, about.get("wavelength")
    good = about.get("good")
    good = np.ones(total, bool) if good is None or not good.any() else good
    if pixels.dtype.kind == "f" or nodata is not None:
        rows, cols = (
            slice(max(0, (n - SIDE) // 2), min(n, (n + SIDE) // 2)) for n in pixels.shape[:2]
        )
        usable = np.zeros(total, bool)
        with suppress(PolyadError, OSError, ValueError), np.errstate(over="ignore"):
            window = pixels.read(rows, cols, np.arange(total))
            measured = np.isfinite(window.astype(np.float32)) & (window != nodata)
            usable = measured.any(axis=(0, 1))
        if not usable[good].all():  # a band without data, or no data in the middle: look further
            from polyad.scene.raster.scene import Scene, lazy_scene
            from polyad.scene.raster.selection import usable_bands

            scene = lazy_scene(pixels, **about)
            with suppress(SceneError):  # pixels that cannot be read are told when they are wanted
                scene = usable_bands(scene)
            bands = Scene.of(scene).bands
            return bands.count, bands.note, bands.wavelength
    if not good.all():
        from polyad.scene.raster.bands import FLAGGED, ranges_of_bands

        numbers = about.get("number")
        numbers = np.arange(1, total + 1) if numbers is None else numbers
        names = ranges_of_bands(numbers[~good], None if wavelength is None else wavelength[~good])
        note = f"{total - good.sum()} of {total}: {names} {FLAGGED}"
    return int(good.sum()), note, None if wavelength is None else wavelength[good]


def _place(crs: Any, transform: Any) -> Facts:
    """Return the reference system, and the sides of a pixel, also of a grid that is turned."""
    size = None
    if transform is not None:
        sides = math.hypot(transform.a, transform.d), math.hypot(transform.b, transform.e)
        size = [_rounded(side) for side in sides]
    return {"crs": None if crs is None else crs.to_string(), "pixel_size": size}


def _ends(centers: Any) -> list[float] | None:
    """Return the shortest and the longest wavelength; None without any."""
    if centers is None:
        return None
    import numpy as np

    return [_rounded(end(np.asarray(centers))) for end in (np.nanmin, np.nanmax)]


def _rounded(value: Any) -> float:
    """Return a number without the digits that rounding errors leave: 0.1 of 0.09999999999995."""
    return float(f"{float(value):.10g}")


def _describe_class_map(
    source: str, budget: int, nodata: float | None, unnamed: int
) -> Facts | None:
    """Describe a raster of class ids, None where the file is none.

    Where the file names and colors no class, it is one if it has ``unnamed`` of them at most.
    """
    import numpy as np

    from polyad.scene.raster.classes import unique_names
    from polyad.scene.read.classes import complete
    from polyad.scene.read.label_rasters import as_ids, read_label_raster

    path, key = locate(source)
    if not path.exists():  # an address
        return None
    with suppress(PolyadError), told_as(SceneError, f"{path}: the map cannot be read", "copy it"):
        raster = read_label_raster(
            path, key, None, budget,
            lambda path, ids, value: as_ids(path, ids, value if nodata is None else nodata),
        )  # fmt: skip
        ids, counts = np.unique(raster.values, return_counts=True)
        pixels = dict(zip(ids.tolist(), counts.tolist(), strict=True))
        if not (raster.names or raster.colors) and len(set(pixels) - {0}) > unnamed:
            return None
        classes = complete(raster.values, raster.names, raster.colors)
        names = zip(unique_names(classes), classes, strict=True)
        return {
            "kind": "class map",
            "rows": raster.values.shape[0],
            "columns": raster.values.shape[1],
            "classes": len(classes),
            "pixels": {name: pixels.get(info.value, 0) for name, info in names},
            "without_class": pixels.get(0, 0),
            **_place(raster.crs, raster.transform),
        }
    return None


def _describe_target_map(path: Path) -> Facts | None:
    """Describe a GeoTIFF of predicted values or their deviations, None where the file is none."""
    if path.suffix.lower() not in (".tif", ".tiff") or not path.is_file():
        return None
    from polyad import sandbox
    from polyad.scene.read.formats.kinds import companions

    limits, files = sandbox.Limits(sandbox.SLACK), companions(path)
    facts: Facts | None = None
    with suppress(SceneError, RuntimeError):
        facts = sandbox.run(
            f"{__name__}:target_map_facts", path, name=path, limits=limits, files=files
        )
    return facts


def target_map_facts(path: Path) -> Facts | None:
    """Describe a map of regression targets in this process, which ought to be a confined one."""
    from polyad.scene.read.formats.opening import open_raster

    with open_raster(path, "GTiff") as file:
        quantity = file.tags().get("quantity")
        if quantity not in TARGET_MAPS:
            return None
        return {
            "kind": TARGET_MAPS[quantity],
            "rows": file.height,
            "columns": file.width,
            "targets": [_target_line(file, k) for k in file.indexes],
            "values": file.dtypes[0],
            **_place(file.crs, file.transform),
        }


def _target_line(file: Any, band: int) -> str:
    """Return name, units and range of one band in words."""
    units, tags = file.units[band - 1], file.tags(band)
    line = (file.descriptions[band - 1] or f"band {band}") + (f" ({units})" if units else "")
    ends = [tags.get(f"STATISTICS_{name}") for name in ("MINIMUM", "MAXIMUM")]
    return line if None in ends else f"{line}: {float(ends[0]):.7g} to {float(ends[1]):.7g}"


def _is_model(path: Path) -> bool:
    """Tell a model from a scene: by its custom ending, else by how a safetensors file begins."""
    if path.suffix == ".polyad" or not path.is_file():
        return path.suffix == ".polyad"
    with path.open("rb") as file:
        return file.read(10)[8:] == b'{"'


def _describe_model(source: str) -> Facts:
    from polyad.estimators.file_format import read_model

    header, _ = read_model(source)
    from polyad.scene.learn.model import model_from_about  # for a file that is there

    network, about = header.network, header.about
    terms = network.rank * network.hidden
    facts: Facts = {
        "kind": header.kind if header.pipeline is None else "Pipeline",
        "sample_shape": list(network.in_shape),
        "rank": network.rank,
        "hidden": network.hidden,
        "weights": terms * sum(network.in_shape) + network.hidden * network.n_outputs,
        "solver": header.parameters.solver,
        "epochs": len(header.history.loss),
    }
    if "scene" in about:
        model = model_from_about(source, about)
        facts["window"] = model.window
        facts["bands"] = model.bands
        if model.spectral.left_out is not None:
            facts["bands_left_out"] = model.spectral.left_out
        if model.values is None:
            facts["classes"] = [c.name for c in model.classes]
        else:
            facts["targets"] = [t.title for t in model.values.targets]
        if model.recipe is not None:
            facts["preset"] = f"{model.recipe.preset}, {model.recipe.goal}"
            facts["steps"] = model.recipe.line
        if model.score_line is not None:
            facts["spatial_accuracy"] = model.score_line
        if model.accuracy is not None:
            facts["cross_validation"] = model.accuracy.to_dict()
        if model.values is not None:
            facts["spatial_scores"] = model.values.score_lines
        facts["training_pixels"] = len(model.training.pixels)
        if model.label_counts is not None:
            facts["labels"] = model.label_counts
        if model.training.seconds is not None:
            facts["training_seconds"] = model.training.seconds
    return facts
