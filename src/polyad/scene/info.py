"""Describe a file in a few lines: a scene, a class map, labels, a spectral library or a model."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Any

from polyad.errors import PolyadError, SceneError, told_as
from polyad.scene.files.paths import DEVIATION, VALUES, check_scene, locate

VALUE_MAPS = {VALUES: "map of values", DEVIATION: "standard deviations of a map of values"}
UNNAMED = 256  # classes without names at most, in a raster without bands
FEW = 64  # and in a raster of one band: a gray picture has more values


def describe(source: str, *, max_bytes: int | None = None, remote: bool = False) -> dict[str, Any]:
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

    Returns
    -------
    dict
        Plain values only, ready for JSON.
    """
    if _is_model(Path(source)):
        return _describe_model(source)
    check_scene(source, remote=remote)
    path, key = locate(source)
    if path.is_file():
        from polyad.scene.raster.guards import memory_budget  # here: first the file must exist
        from polyad.scene.read.features import describe_features, feature_format

        if feature_format(path) is not None:
            return describe_features(path, key, memory_budget(max_bytes))
        library = _describe_library(path)
        if library is not None:
            return library
        if path.suffix.lower() == ".mat" and key is None:
            return _describe_matlab(path, max_bytes)
    return _describe_scene(source, max_bytes, remote)


def _describe_library(path: Path) -> dict[str, Any] | None:
    """Describe an ENVI spectral library; None where the file is none."""
    from polyad.scene.read.formats.envi import open_envi, read_library
    from polyad.scene.read.formats.kinds import kind_of

    with suppress(SceneError):  # of an ENVI file that is damaged, its opener says more
        library = read_library(path) if kind_of(path).open is open_envi else None
        if library is not None:
            return {
                "kind": "spectral library",
                "spectra": library.spectra,
                "bands": library.bands,
                "wavelength_nm": _ends(library.wavelength),
            }
    return None


def _describe_matlab(path: Path, max_bytes: int | None) -> dict[str, Any]:
    """Describe the scene or the labels of a MATLAB file, and the other arrays beside them."""
    from polyad.scene.raster.guards import memory_budget
    from polyad.scene.read.formats.matlab import list_arrays

    found = list_arrays(path, memory_budget(max_bytes))
    arrays = {name: shape for name, shape in found.items() if math.prod(shape) > 1}
    cubes = [shape for shape in arrays.values() if len(shape) == 3]
    facts: dict[str, Any] = {"kind": f"MATLAB file with {len(cubes) or 'no'} cubes"}
    if len(cubes) < 2:
        try:
            facts = _describe_scene(str(path), max_bytes, False)
        except SceneError:
            if not arrays or cubes:
                raise
    if len(arrays) > 1 or not cubes:
        facts["arrays"] = {name: " x ".join(map(str, shape)) for name, shape in arrays.items()}
    flat = [name for name, shape in arrays.items() if cubes and shape == cubes[0][:2]]
    if len(cubes) == len(flat) == 1:
        labels = _describe_class_map(f"{path}:{flat[0]}", max_bytes, unnamed=UNNAMED)
        facts |= {} if labels is None else {"labels": labels["pixels"]}
    return facts


def _describe_scene(source: str, max_bytes: int | None, remote: bool) -> dict[str, Any]:
    from polyad.scene.raster.scene import Scene
    from polyad.scene.raster.selection import usable_bands
    from polyad.scene.read.scenes import open_scene

    try:
        scene = open_scene(source, max_bytes=max_bytes, remote=remote)
    except SceneError:
        found = _describe_class_map(source, max_bytes, unnamed=UNNAMED)
        if found is None:
            raise
        return found
    if scene.sizes["band"] == 1 and scene.dtype.kind in "iu":
        found = _describe_class_map(source, max_bytes, unnamed=FEW)
        if found is not None:
            return found
    if scene.dtype.kind == "f":
        mapped = _describe_value_map(source)
        if mapped is not None:
            return mapped
    whole = Scene.of(scene)
    crs, transform, nodata = whole.grid.crs, whole.grid.transform, whole.nodata
    facts: dict[str, Any] = {
        "kind": "scene",
        "rows": whole.shape[0],
        "columns": whole.shape[1],
        "bands": None,
        "values": str(scene.dtype),
        "bytes": None,
        "nodata": None if nodata is None else _shortest(nodata),
        "crs": None if crs is None else crs.to_string(),
        "pixel_size": None if transform is None else _pixel_size(transform),
    }
    with suppress(SceneError):  # pixels that cannot be read are told when they are wanted
        scene = usable_bands(scene)
    bands = Scene.of(scene).bands
    facts |= {"bands": bands.count, "bytes": math.prod(scene.shape) * scene.dtype.itemsize}
    facts |= {} if bands.note is None else {"bands_left_out": bands.note}
    facts |= {k: v for k, v in scene.attrs.items() if k == "scaling"}
    return facts | {"wavelength_nm": _ends(bands.wavelength)}


def _ends(centers: Any) -> list[float] | None:
    """Return the shortest and the longest wavelength; None without any."""
    if centers is None:
        return None
    import numpy as np

    return [_rounded(end(np.asarray(centers))) for end in (np.nanmin, np.nanmax)]


def _shortest(value: Any) -> float:
    """Return a number with the digits that tell it apart in its own precision: -3.4e+38."""
    return float(str(value))


def _rounded(value: Any) -> float:
    """Return a number without the digits that rounding errors leave: 0.1 of 0.09999999999995."""
    return float(f"{float(value):.10g}")


def _describe_class_map(
    source: str, max_bytes: int | None, unnamed: int = 0
) -> dict[str, Any] | None:
    """Describe a raster of class ids, None where the file is none.

    Where the file names and colors no class, it is one if it has ``unnamed`` of them at most.
    """
    import numpy as np

    from polyad.scene.raster.classes import unique_names
    from polyad.scene.raster.guards import memory_budget
    from polyad.scene.read.classes import complete
    from polyad.scene.read.label_rasters import read_label_raster

    path, key = locate(source)
    if not path.exists():  # an address, or a known scene
        return None
    with suppress(PolyadError), told_as(SceneError, f"{path}: the map cannot be read", "copy it"):
        raster = read_label_raster(path, key, None, memory_budget(max_bytes))
        ids, counts = np.unique(raster.values, return_counts=True)
        pixels = dict(zip(ids.tolist(), counts.tolist(), strict=True))
        if not (raster.names or raster.colors) and len(set(pixels) - {0}) > unnamed:
            return None
        classes = complete(raster.values, raster.names, raster.colors)
        return {
            "kind": "class map",
            "rows": raster.values.shape[0],
            "columns": raster.values.shape[1],
            "classes": len(classes),
            "pixels": {
                name: pixels.get(info.value, 0)
                for info, name in zip(classes, unique_names(classes), strict=True)
            },
            "without_class": pixels.get(0, 0),
            "crs": None if raster.crs is None else raster.crs.to_string(),
            "pixel_size": None if raster.transform is None else _pixel_size(raster.transform),
        }
    return None


def _describe_value_map(source: str) -> dict[str, Any] | None:
    """Describe a GeoTIFF of predicted values or their deviations, None where the file is none."""
    path, _ = locate(source)
    if path.suffix.lower() not in (".tif", ".tiff") or not path.is_file():
        return None
    from polyad import sandbox
    from polyad.scene.read.formats.kinds import companions

    limits, files = sandbox.Limits(sandbox.SLACK), companions(path)
    with suppress(SceneError, RuntimeError):
        facts: dict[str, Any] | None = sandbox.run(
            f"{__name__}:value_map_facts", path, name=path, limits=limits, files=files
        )
        return facts
    return None


def value_map_facts(path: Path) -> dict[str, Any] | None:
    """Describe a map of values in this process, which ought to be a confined one."""
    from polyad.scene.read.formats.opening import open_raster

    with open_raster(path, "GTiff") as file:
        quantity = file.tags().get("quantity")
        if quantity not in VALUE_MAPS:
            return None
        return {
            "kind": VALUE_MAPS[quantity],
            "rows": file.height,
            "columns": file.width,
            "targets": [_target_line(file, k) for k in file.indexes],
            "values": file.dtypes[0],
            "crs": None if file.crs is None else file.crs.to_string(),
            "pixel_size": _pixel_size(file.transform),
        }


def _target_line(file: Any, band: int) -> str:
    """Return name, units and range of one band in words."""
    units, tags = file.units[band - 1], file.tags(band)
    line = (file.descriptions[band - 1] or f"band {band}") + (f" ({units})" if units else "")
    ends = [tags.get(f"STATISTICS_{name}") for name in ("MINIMUM", "MAXIMUM")]
    return line if None in ends else f"{line}: {ends[0]} to {ends[1]}"


def _pixel_size(transform: Any) -> list[float]:
    """Return the sides of a pixel, also of a grid that is turned."""
    sides = math.hypot(transform.a, transform.d), math.hypot(transform.b, transform.e)
    return [_rounded(side) for side in sides]


def _is_model(path: Path) -> bool:
    """Tell a model from a scene: by its custom ending, else by how a safetensors file begins."""
    if path.suffix == ".polyad" or not path.is_file():
        return path.suffix == ".polyad"
    with path.open("rb") as file:
        return file.read(10)[8:] == b'{"'


def _describe_model(source: str) -> dict[str, Any]:
    from polyad.estimators.file_format import read_model

    header, _ = read_model(source)
    from polyad.scene.learn.model import model_from_about  # for a file that is there

    network, about = header.network, header.about
    terms = network.rank * network.hidden
    facts: dict[str, Any] = {
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
