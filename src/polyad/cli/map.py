"""``polyad map`` and ``polyad demo``: from a model and a scene to a class map."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import polyad.scene
from polyad.cli import options as opt
from polyad.cli.options import ADVANCED, OUTPUT, option
from polyad.scene.arguments import check_arguments
from polyad.scene.files.paths import make_folder, set_paths
from polyad.terminal import fail, on_terminal, replaced_line, say, steps

if TYPE_CHECKING:
    from polyad.scene.map.mapping import MapFileOptions


def map_command(
    model: opt.Model,
    scene: Annotated[
        list[str],
        typer.Argument(help="Scene file, FILE:KEY, or a known scene; several with --out-dir."),
    ],
    out: Annotated[
        Path | None,
        option(
            OUTPUT,
            "Map to write: .tif, .hdr (ENVI), .png, .nc, .zarr or .npy. Default: map.tif.",
            "FILE",
        ),
    ] = None,
    out_dir: Annotated[
        Path | None,
        option(OUTPUT, "Folder for the maps of several scenes, such as 'scenes/*.hdr'.", "FOLDER"),
    ] = None,
    ending: Annotated[
        str | None, option(OUTPUT, "Format of the maps in --out-dir. Default: .tif.", ".EXT")
    ] = None,
    cluster: opt.Cluster = None,
    probabilities: Annotated[
        Path | None, option(OUTPUT, "Also write a GeoTIFF of the class probabilities.", "FILE")
    ] = None,
    probability_type: Annotated[
        str,
        option(
            OUTPUT,
            "Data type of --probabilities; uint8 takes a quarter of the space.",
            "float32|uint8",
        ),
    ] = "float32",
    uncertainty: Annotated[
        Path | None,
        option(
            OUTPUT,
            "Also write a GeoTIFF of 1 - largest probability, 1 - margin and entropy.",
            "FILE",
        ),
    ] = None,
    coverage: opt.Coverage = None,
    merge: opt.Merge = None,
    colors: opt.Colors = None,
    tile: Annotated[
        int | None,
        option(
            ADVANCED, "Side of a tile, ideally a multiple of 256. Default: by memory.", "PIXELS"
        ),
    ] = None,
    mask: opt.Mask = None,
    bbox: opt.BBox = None,
    nodata: opt.NoData = None,
    adapt: opt.Adapt = None,
    max_bytes: opt.MaxBytes = None,
    remote: opt.Remote = False,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
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
    several = cluster is not None or out_dir is not None or len(scene) > 1
    if several and remote:
        fail("--remote reads one scene; leave out --cluster and --out-dir, or download the scenes")
    named = {"probabilities": probabilities, "uncertainty": uncertainty}
    beside = {name: path for name, path in named.items() if path is not None}
    sets = {} if coverage is None else set_paths(out)
    if not several:
        outputs = {"map": out, **{f"file of {name}": path for name, path in beside.items()}, **sets}
        check_arguments(
            outputs=outputs,
            model=model,
            scene=scene[0],
            mask=mask,
            colors=colors,
            force=force,
            remote=remote,
        )
    options: MapFileOptions = {
        "probabilities": probabilities,
        "probability_dtype": probability_type,
        "uncertainty": uncertainty,
        "coverage": coverage,
        "merge": merge or (),
        "colors": None if colors is None else polyad.scene.read_colors(colors),
        "tile": tile,
    }
    fitted = polyad.SceneModel.load(model)
    if nodata is not None:
        fitted = fitted.with_nodata(nodata)
    result: dict[str, Any]
    if several:
        from polyad.distributed import map_files

        done = map_files(
            fitted,
            scene,
            out,
            out_dir=out_dir,
            ending=ending or ".tif",
            cluster=cluster,
            max_bytes=max_bytes,
            mask=mask,
            bbox=bbox,
            progress=on_terminal(),
            force=force,
            inputs=[model] if colors is None else [model, colors],
            adapt=adapt,
            **options,
        )
        maps = [str(path) for path in done.paths]
        pixels, mapped, replaced, seconds = done.pixels, done.mapped, done.replaced, done.seconds
        result = {"maps": maps, "adapted": done.adapted}
        lines = zip(maps, done.adapted, strict=True)
        adapted = "".join(f"{path}: {line}\n" for path, line in lines if line is not None)
        written = f"maps: {', '.join(maps)}"
    else:
        cube = polyad.open_scene(scene[0], max_bytes=max_bytes, remote=remote, nodata=nodata)
        cube = polyad.scene.restrict_scene(cube, mask=mask, bbox=bbox, max_bytes=max_bytes)
        written = f"map: {out}" + (" in place of the earlier one" if out.exists() else "")
        started = time.perf_counter()
        fitted = polyad.scene.adapt_model(fitted, cube, adapt)
        viewed = fitted.view(cube)
        mapped = polyad.map_file(fitted, viewed, out, progress=on_terminal(), **options)
        seconds = time.perf_counter() - started
        pixels, replaced = cube.sizes["y"] * cube.sizes["x"], polyad.scene.replaced_pixels(viewed)
        result = {"map": str(out), "adapted": fitted.adapted}
        result |= {name: str(path) for name, path in beside.items()}
        result |= {"sets": [str(path) for path in sets.values()]} if sets else {}
        adapted = "" if fitted.adapted is None else f"{fitted.adapted}\n"
        written += f"; sets: {', '.join(result['sets'])}" if sets else ""
        written += "".join(f"; {name}: {path}" for name, path in beside.items())
    result |= {"pixels": pixels, "mapped": mapped, "pixels_replaced": replaced}
    count = f"{pixels:,}" if mapped == pixels else f"{mapped:,} of {pixels:,}"
    say(
        result | {"map_seconds": round(seconds, 4)},
        as_json,
        f"{adapted}{replaced_line(replaced)}{count} pixels mapped in {seconds:.2f} s; {written}",
    )


def demo(
    out: Annotated[Path, option(OUTPUT, "Folder for the results.", "FOLDER")] = Path("polyad-demo"),
    preset: opt.Preset = None,
    goal: opt.Goal = "this-scene",
    seed: opt.Seed = 0,
    force: opt.Force = False,
    as_json: opt.AsJson = False,
) -> None:
    """Map Indian Pines from ten labels per class, with a report."""
    check_arguments(preset=(preset, goal))
    make_folder(out)
    kinds = {"model.polyad": "model", "map.tif": "map", "map.png": "map", "report.html": "report"}
    for name, what in (kinds | {"scores.json": "file of scores"}).items():
        check_arguments(outputs={what: out / name}, force=force)
    from polyad.scene.demo import run_demo

    result = run_demo(out, seed=seed, preset=preset, goal=goal, progress=on_terminal())
    say(
        result,
        as_json,
        steps(result["steps"]) + f"overall accuracy {100 * result['overall_accuracy']:.1f} % "
        f"({100 * result['overall_accuracy_no_overlap']:.1f} % on windows apart from training), "
        f"average {100 * result['average_accuracy']:.1f} %, kappa {result['kappa']:.3f}"
        f"\n{result['n_train']} training pixels, fitted in {result['fit_seconds']:.2f} s, "
        f"mapped in {result['map_seconds']:.3f} s\nreport: {out / 'report.html'}",
    )
