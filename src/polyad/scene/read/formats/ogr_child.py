"""Reads one layer of a vector file through OGR, with one driver, little memory and little time.

A script of its own that imports pyogrio and nothing of polyad. The request is JSON on standard
input; the answer on standard output is a line of JSON, then the arrays that it announces. Whatever
a hostile file does to the library happens here, where there is no network and no other driver.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
import time
import warnings
from contextlib import suppress
from typing import Any

_KINDS = {"OFTString": "text", "OFTInteger": "integer", "OFTInteger64": "integer",
          "OFTReal": "real"}  # fmt: skip
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # Linux' CLONE_NEWUSER and CLONE_NEWNET
_MOST_DISTINCT = 100_000  # values of one field that are counted
_LONGEST = 500  # characters of a value
_MOST_LISTED = 1000  # layers and fields that are named
_UNUSED = ("pandas", "geopandas", "shapely", "pyarrow", "pyproj")  # which pyogrio would import


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    pieces: list[bytes] = []
    warnings.simplefilter("ignore")
    try:
        answer = read(request, pieces)
    except MemoryError:
        answer = {"trouble": "memory"}
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        answer = {"trouble": "memory" if "alloc" in first.lower() else first[:300]}
    sizes = [len(piece) for piece in pieces] if "trouble" not in answer else []
    out = sys.stdout.buffer
    out.write(json.dumps(answer | {"sizes": sizes}).encode() + b"\n")
    for piece in pieces if sizes else ():
        out.write(piece)


def read(request: dict[str, Any], pieces: list[bytes]) -> dict[str, Any]:
    """Return what the file holds; ``pieces`` get the codes of each field, then the geometries."""
    sys.path += request["packages"]  # where the parent has it from, wherever that is
    pyogrio = only(request["driver"])
    import numpy as np
    from pyogrio.raw import read as read_layer

    confine(request["memory"], request["seconds"])
    path, options = request["path"], request["options"]
    layers = [str(name) for name, kind in pyogrio.list_layers(path) if kind is not None]
    layer = request["layer"]
    if layer is None and len(layers) == 1:
        layer = layers[0]
    if layer not in layers:
        return {"layers": layers[:_MOST_LISTED], "layer": None}
    about = pyogrio.read_info(path, layer=layer, force_feature_count=True, **options)
    if about["features"] > request["most"]:
        return {"layers": layers, "layer": layer, "count": int(about["features"])}
    fields = [str(name) for name in about["fields"]]
    kinds = [_KINDS.get(str(kind)) for kind in about["ogr_types"]]
    chosen = [n for n, k in zip(fields, kinds, strict=True) if k][:_MOST_LISTED]
    most = int(about["features"]) + 1  # pyogrio allocates as many; one more finds a cut file
    meta, _, shapes, data = read_layer(
        path, layer=layer, columns=chosen, force_2d=True, max_features=most, **options
    )
    kind_of = dict(zip(fields, kinds, strict=True))
    columns: list[dict[str, Any]] = []
    numbers: list[bytes] = []
    for name, items in zip(map(str, meta["fields"]), data, strict=True):
        values, codes = factorized(items, np)
        named = values if len(values) <= request["named"] else []
        about = {"name": name, "kind": kind_of[name], "distinct": len(values), "values": named}
        if kind_of[name] != "text" and name.casefold() in request.get("numbers", ()):
            about["numbers"] = len(numbers)
            plain = [math.nan if item is None else float(item) for item in items.tolist()]
            numbers.append(np.array(plain, np.float64).tobytes())
        columns.append(about)
        pieces.append(codes.tobytes())
    pieces += numbers
    wkb = [b"" if shape is None else bytes(shape) for shape in (() if shapes is None else shapes)]
    pieces += [np.array([len(shape) for shape in wkb], np.int64).tobytes(), b"".join(wkb)]
    count, crs = len(wkb), meta["crs"]
    return {"layers": layers, "layer": layer, "count": count, "crs": crs, "columns": columns}


def only(driver: str) -> Any:
    """Return pyogrio with no driver but one."""
    for name in _UNUSED:
        sys.modules[name] = None  # type: ignore[assignment]
    import pyogrio
    from pyogrio import _ogr

    others = ",".join(name for name in pyogrio.list_drivers() if name != driver)
    pyogrio.set_gdal_config_options({"OGR_SKIP": others, "GDAL_SKIP": others})
    _ogr._register_drivers()
    if set(pyogrio.list_drivers()) != {driver}:
        raise RuntimeError(f"this pyogrio cannot be kept to the driver {driver}")
    return pyogrio


def factorized(items: Any, np: Any) -> tuple[list[Any], Any]:
    """Return the distinct values of a field that say something, and each feature's among them."""
    numbers: dict[Any, int] = {}
    codes = np.full(len(items), -1, np.int32)
    for k, item in enumerate(items.tolist()):
        if isinstance(item, str):
            item = item.strip() and item[:_LONGEST]
        empty = item is None or item == "" or (isinstance(item, float) and math.isnan(item))
        if not empty:
            codes[k] = numbers.setdefault(item, len(numbers))
        if len(numbers) > _MOST_DISTINCT:
            break
    return list(numbers), codes


def confine(memory: int, seconds: int) -> None:
    """Drop the network, and limit memory and processor time from here on."""
    with suppress(OSError, AttributeError, TypeError, ValueError):  # not Linux, or not allowed here
        ctypes.CDLL(None).unshare(_NEW_USER | _NEW_NETWORK)
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows; the parent limits the time
        return
    for kind, most in (
        (resource.RLIMIT_AS, _address_space() + memory),
        (resource.RLIMIT_CPU, int(time.process_time()) + seconds + 1),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),  # of files; what is written to the parent is none
    ):
        with suppress(OSError, ValueError):  # macOS does not take every limit
            resource.setrlimit(kind, (most, most))


def _address_space() -> int:
    """Return the bytes this process has mapped so far, mostly libraries."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - before anything else is imported
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError):
        return 2 * 2**30  # not Linux


if __name__ == "__main__":
    main()
