"""``polyad map``: from a model and a scene to a class map."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

import polyad.scene
from polyad.cli.options import (
    ADVANCED,
    OUTPUT,
    Adapt,
    AsJson,
    BBox,
    Cluster,
    Colors,
    Coverage,
    Force,
    Mask,
    MaxBytes,
    Merge,
    Model,
    Remote,
    option,
)
from polyad.scene.arguments import check_arguments
from polyad.scene.files.paths import set_paths
from polyad.terminal import fail, on_terminal, replaced_line, say


def map_command(
    model: Model,
    scene: Annotated[
        list[str],
        typer.Argument(help="Scene file, FILE:KEY, or a known scene; several with --out-dir."),
    ],
    out: Annotated[
        Path | None,
        option(
            OUTPUT,
            help="Map to write: .tif, .hdr (ENVI), .png, .nc, .zarr or .npy. Default: map.tif.",
            metavar="FILE",
        ),
    ] = None,
    out_dir: Annotated[
        Path | None,
        option(
            OUTPUT,
            help="Folder for the maps of several scenes, such as 'scenes/*.hdr'.",
            metavar="FOLDER",
        ),
    ] = None,
    ending: Annotated[
        str | None,
        option(OUTPUT, help="Format of the maps in --out-dir. Default: .tif.", metavar=".EXT"),
    ] = None,
    cluster: Cluster = None,
    probabilities: Annotated[
        Path | None,
        option(OUTPUT, help="Also write a GeoTIFF of the class probabilities.", metavar="FILE"),
    ] = None,
    probability_type: Annotated[
        str,
        option(
            OUTPUT,
            help="Data type of --probabilities; uint8 takes a quarter of the space.",
            metavar="float32|uint8",
        ),
    ] = "float32",
    uncertainty: Annotated[
        Path | None,
        option(
            OUTPUT,
            help="Also write a GeoTIFF of 1 - largest probability, 1 - margin and entropy.",
            metavar="FILE",
        ),
    ] = None,
    coverage: Coverage = None,
    merge: Merge = None,
    colors: Colors = None,
    tile: Annotated[
        int | None,
        option(
            ADVANCED,
            help="Side of a tile, ideally a multiple of 256. Default: by memory.",
            metavar="PIXELS",
        ),
    ] = None,
    mask: Mask = None,
    bbox: BBox = None,
    adapt: Adapt = None,
    max_bytes: MaxBytes = None,
    remote: Remote = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Map every pixel of a scene, tile by tile."""
    check_arguments(
        model=model, mask=mask, colors=colors, bbox=bbox, merge=merge, coverage=coverage
    )
    if ending is not None and out_dir is None:
        example = f"map.{ending.lstrip('.') or 'tif'}"
        fail(f"--ending is for maps in --out-dir; name the map instead, as in --out {example}")
    if out is not None and out_dir is not None:
        fail(f"--out names one map and --out-dir a folder, got both, {out} and {out_dir}; drop one")
    out = Path("map.tif") if out is None else out
    many = cluster is not None or out_dir is not None or len(scene) > 1
    if many and remote:
        fail("--remote reads one scene; leave out --cluster and --out-dir, or download the scenes")
    if not many:
        outputs: dict[str, Path | None] = {"map": out, "file of probabilities": probabilities}
        outputs["file of uncertainty"] = uncertainty
        outputs |= {} if coverage is None else set_paths(out)
        files: dict[str, Any] = {"model": model, "scene": scene[0], "mask": mask, "colors": colors}
        check_arguments(outputs=outputs, force=force, remote=remote, **files)
    earlier = " in place of the earlier one" if not many and out.exists() else ""
    palette = None if colors is None else polyad.scene.read_colors(colors)
    fitted = polyad.SceneModel.load(model)
    if many:
        from polyad.distributed import map_files

        done = map_files(
            fitted,
            scene,
            out,
            out_dir=out_dir,
            ending=ending or ".tif",
            cluster=cluster,
            probabilities=probabilities,
            probability_dtype=probability_type,
            uncertainty=uncertainty,
            coverage=coverage,
            merge=merge or (),
            colors=palette,
            tile=tile,
            max_bytes=max_bytes,
            mask=mask,
            bbox=bbox,
            adapt=adapt,
            progress=on_terminal(),
            force=force,
            inputs=[model] if colors is None else [model, colors],
        )
        maps = [str(path) for path in done.paths]
        told = {"maps": maps, "pixels": done.pixels, "mapped": done.mapped}
        told |= {"map_seconds": round(done.seconds, 4)}
        named = [f"{m}: {a}\n" for m, a in zip(maps, done.adapted, strict=True) if a is not None]
        say(
            told | {"adapted": done.adapted, "pixels_replaced": done.replaced},
            as_json,
            "".join(named)
            + replaced_line(done.replaced)
            + ("" if done.mapped == done.pixels else f"{done.mapped:,} of ")
            + f"{done.pixels:,} pixels mapped in {done.seconds:.2f} s; maps: {', '.join(maps)}",
        )
        return
    cube = polyad.open_scene(scene[0], max_bytes=max_bytes, remote=remote)
    cube = polyad.scene.restrict_scene(cube, mask=mask, bbox=bbox, max_bytes=max_bytes)
    started = time.perf_counter()
    fitted = polyad.scene.adapt_model(fitted, cube, adapt)
    cube = fitted.view(cube)
    mapped = polyad.map_file(
        fitted,
        cube,
        out,
        probabilities=probabilities,
        probability_dtype=probability_type,
        uncertainty=uncertainty,
        coverage=coverage,
        merge=merge or (),
        colors=palette,
        tile=tile,
        progress=on_terminal(),
    )
    seconds = time.perf_counter() - started
    sets = [] if coverage is None else [str(path) for path in set_paths(out).values()]
    also = {"probabilities": probabilities, "uncertainty": uncertainty}
    beside = {name: path for name, path in also.items() if path is not None}
    pixels, replaced = cube.sizes["y"] * cube.sizes["x"], polyad.scene.replaced_pixels(cube)
    say(
        {
            "map": str(out),
            "pixels": pixels,
            "mapped": mapped,
            "map_seconds": round(seconds, 4),
            "adapted": fitted.adapted,
            "pixels_replaced": replaced,
        }
        | ({"sets": sets} if sets else {})
        | {name: str(path) for name, path in beside.items()},
        as_json,
        ("" if fitted.adapted is None else f"{fitted.adapted}\n")
        + replaced_line(replaced)
        + ("" if mapped == pixels else f"{mapped:,} of ")
        + f"{pixels:,} pixels mapped in {seconds:.2f} s; map: {out}{earlier}"
        + (f"; sets: {', '.join(sets)}" if sets else "")
        + "".join(f"; {name}: {path}" for name, path in beside.items()),
    )
