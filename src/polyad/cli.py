"""The command line: arguments in, one public call each, text or JSON out.

Arguments are checked before what does the work is imported: a mistyped path is answered at once.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
import warnings
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import polyad
from polyad.errors import PolyadError
from polyad.scene.arguments import check_arguments
from polyad.scene.files.known import known_scene
from polyad.scene.files.paths import check_kind, make_folder
from polyad.terminal import brief, fail, misuse, on_terminal, put, say, warn

app = typer.Typer(
    name="polyad",
    help="From a hyperspectral scene and a few labeled pixels to a georeferenced class map.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of every random choice.")]
MaxBytes = Annotated[
    int | None,
    typer.Option(help="Bytes that may be read at once; by default half of the machine's memory."),
]
Cluster = Annotated[
    str | None, typer.Option(help="Dask: local[:N] (by TLS), tls:// or tcp://host:port, or a file.")
]
Model = Annotated[str, typer.Argument(help="Model file made by `polyad train`.")]
Scene = Annotated[
    str, typer.Argument(help="Scene file, file:key, or a known name such as indian-pines.")
]
Labels = Annotated[
    str,
    typer.Argument(help="Labels: raster, PNG, CSV, GeoJSON, or the name of a known scene."),
]
Preset = Annotated[
    str, typer.Option(help="fast, paper, or best: the most accurate map from a few labels.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace outputs that are there and are something else.")
]
Goal = Annotated[str, typer.Option(help="What best is to be best at: this-scene or other-scenes.")]


@app.command(epilog="Example:  polyad demo --out polyad-demo")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("polyad-demo"),
    preset: Preset = "fast",
    goal: Goal = "this-scene",
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Map Indian Pines from ten labels per class: fit, map, score, figure, report."""
    check_arguments(preset=(preset, goal))
    make_folder(out)
    outputs = {"model": out / "model.polyad", "map": out / "map.tif", "report": out / "report.html"}
    check_arguments(outputs=outputs | {"file of scores": out / "scores.json"}, force=force)
    check_arguments(outputs={"map": out / "map.png"}, force=force)
    from polyad.scene.demo import run_demo

    result = run_demo(out, seed=seed, preset=preset, goal=goal, progress=on_terminal())
    say(
        result,
        as_json,
        _steps(result["steps"])
        + _accuracy(result)
        + f"\n{result['n_train']} training pixels, fitted in {result['fit_seconds']:.2f} s, "
        f"mapped in {result['map_seconds']:.3f} s\nreport: {out / 'report.html'}",
    )


@app.command(epilog="Example:  polyad train scene.hdr labels.geojson --out model.polyad --rank 2")
def train(
    scene: Scene,
    labels: Labels,
    out: Annotated[Path, typer.Option(help="Where the model goes.")] = Path("model.polyad"),
    samples_per_class: Annotated[
        int | None,
        typer.Option(help="Pixels drawn of each class, half of a smaller one; else all."),
    ] = None,
    preset: Preset = "fast",
    goal: Goal = "this-scene",
    rank: Annotated[
        int | None,
        typer.Option(max=1000, help="Rank of each hidden unit's weights; 1 when not given."),
    ] = None,
    hidden: Annotated[
        int | None, typer.Option(max=10_000, help="Hidden units; 75 when not given.")
    ] = None,
    window: Annotated[int, typer.Option(help="Side of the window around a pixel; odd.")] = 5,
    solver: Annotated[
        str | None, typer.Option(help="joint, or alternating as in the paper; else the preset's.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Passes over the training pixels at most; 200 when not given, paper 50."),
    ] = None,
    seed: Seed = 0,
    max_bytes: MaxBytes = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model on the labeled pixels of a scene."""
    files: dict[str, Any] = {"outputs": {"model": out}, "scene": scene, "labels": [labels]}
    check_arguments(preset=(preset, goal), force=force, **files)
    cube = polyad.open_scene(scene, max_bytes=max_bytes)
    marks = polyad.open_labels(labels, cube, max_bytes=max_bytes)
    given: dict[str, Any] = {"rank": rank, "hidden": hidden, "solver": solver, "epochs": epochs}
    model = polyad.train(
        cube,
        marks,
        window=window,
        samples_per_class=samples_per_class,
        random_state=seed,
        max_bytes=max_bytes,
        preset=preset,
        goal=goal,
        verbose=int(on_terminal()),
        **{name: value for name, value in given.items() if value is not None},
    )
    model.save(out)
    seconds = model.training["seconds"]
    result = {
        "model": str(out),
        "n_train": len(model.training["pixels"]),
        "classes": [c.name for c in model.classes],
        "labels": model.label_counts,
        "epochs": model.estimator.n_iter_,
        "fit_seconds": seconds,
        "steps": None if model.recipe is None else model.recipe.line,
    }
    say(
        result,
        as_json,
        _steps(result["steps"])
        + f"labels: {brief(result['labels'])}\n"
        + f"{result['n_train']} pixels of {len(model.classes)} classes learned in {seconds:.2f} s; "
        f"model: {out}",
    )


@app.command(name="map", epilog="Example:  polyad map model.polyad scene.hdr --out map.tif")
def map_command(
    model: Model,
    scene: Annotated[
        list[str],
        typer.Argument(help="Scene file, file:key, or a known name; many with --out-dir."),
    ],
    out: Annotated[
        Path, typer.Option(help="The map: .tif, .hdr (ENVI), .png, .nc or .npy.")
    ] = Path("map.tif"),
    out_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for the maps of many scenes, such as 'scenes/*.hdr'."),
    ] = None,
    ending: Annotated[str, typer.Option(help="Kind of the maps in --out-dir.")] = ".tif",
    cluster: Cluster = None,
    probabilities: Annotated[
        Path | None, typer.Option(help="GeoTIFF with the probability of each class.")
    ] = None,
    probability_type: Annotated[
        str, typer.Option(help="float32, or uint8 at a quarter of the size.")
    ] = "float32",
    tile: Annotated[
        int | None, typer.Option(help="Side of a tile in pixels, best a multiple of 256.")
    ] = None,
    max_bytes: MaxBytes = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Map every pixel of a scene, tile by tile."""
    check_arguments(model=model)
    many = cluster is not None or out_dir is not None or len(scene) > 1
    if not many:
        outputs = {"map": out, "file of probabilities": probabilities}
        check_arguments(model=model, scene=scene[0], outputs=outputs, force=force)
    fitted = polyad.SceneModel.load(model)
    if many:
        from polyad.distributed import map_files

        done = map_files(
            fitted,
            scene,
            out,
            out_dir=out_dir,
            ending=ending,
            cluster=cluster,
            probabilities=probabilities,
            probability_dtype=probability_type,
            tile=tile,
            max_bytes=max_bytes,
            progress=on_terminal(),
            force=force,
            inputs=[model],
        )
        maps = [str(path) for path in done.paths]
        say(
            {"maps": maps, "pixels": done.pixels, "map_seconds": round(done.seconds, 4)},
            as_json,
            f"{done.pixels:,} pixels mapped in {done.seconds:.2f} s; maps: {', '.join(maps)}",
        )
        return
    cube = polyad.open_scene(scene[0], max_bytes=max_bytes)
    started = time.perf_counter()
    polyad.map_file(
        fitted,
        cube,
        out,
        probabilities=probabilities,
        probability_dtype=probability_type,
        tile=tile,
        progress=on_terminal(),
    )
    seconds = time.perf_counter() - started
    pixels = cube.sizes["y"] * cube.sizes["x"]
    say(
        {"map": str(out), "pixels": pixels, "map_seconds": round(seconds, 4)},
        as_json,
        f"{pixels:,} pixels mapped in {seconds:.2f} s; map: {out}",
    )


@app.command(epilog="Example:  polyad evaluate model.polyad scene.hdr truth.tif --report page.html")
def evaluate(
    model: Model,
    scene: Scene,
    labels: Labels,
    out: Annotated[
        Path | None, typer.Option(help="Write the scores to this .json or .csv file too.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with pictures: map, spectra, calibration.")
    ] = None,
    max_bytes: MaxBytes = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on the labeled pixels that it did not learn from."""
    outputs = {"file of scores": out, "report": report}
    check_arguments(outputs=outputs, model=model, scene=scene, labels=[labels], force=force)
    from polyad.scene import examine, write_scores

    fitted = polyad.SceneModel.load(model)
    cube = polyad.open_scene(scene, max_bytes=max_bytes)
    marks = polyad.open_labels(labels, cube, max_bytes=max_bytes)
    if report is None:
        examination = examine(fitted, cube, marks, progress=on_terminal())
    else:
        from polyad.scene import write_report  # draws, which takes a second to import

        command = shlex.join(["polyad", "evaluate", model, scene, labels, "--report", str(report)])
        title, bar = Path(scene).stem, on_terminal()
        examination = write_report(
            report, fitted, cube, marks, title=title, command=command, progress=bar
        )
    result = examination.to_dict()
    if out is not None:
        write_scores(out, result)
    written = "" if report is None else f"\n\nreport: {report}"
    say(result, as_json, str(examination.scores) + written)


@app.command(epilog="Example:  polyad label indian-pines --truth indian-pines")
def label(
    scene: Scene,
    labels: Annotated[str | None, typer.Option(help="Labels to begin with.")] = None,
    truth: Annotated[
        str | None, typer.Option(help="Labels to score the map against as it grows.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen on; by default this machine alone.")
    ] = "127.0.0.1",
    journal: Annotated[
        Path | None, typer.Option(help="File that keeps every label; by default beside the scene.")
    ] = None,
    preset: Preset = "best",
    goal: Goal = "this-scene",
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Label pixels on a web page and watch the map grow."""
    check_arguments(preset=(preset, goal), scene=scene, labels=[labels, truth])
    try:
        from polyad.app import Settings, serve
    except ModuleNotFoundError as error:
        fail(f"the labeling page needs {error.name}; install it with: pip install 'polyad[app]'")
    settings = Settings(preset=preset, goal=goal)
    place: dict[str, Any] = {"host": host, "port": port, "journal": journal}
    serve(scene, labels, truth, settings=settings, browser=browser, **place)


@app.command(epilog="Example:  polyad info model.polyad")
def info(
    file: Annotated[str, typer.Argument(help="A scene or a model.")],
    max_bytes: MaxBytes = None,
    as_json: AsJson = False,
) -> None:
    """Tell what is in a scene or a model."""
    from polyad.scene.info import describe

    description = describe(file, max_bytes=max_bytes)
    width = max(len(name) for name in description) + 2
    lines = (f"{name.replace('_', ' '):<{width}}{brief(v)}" for name, v in description.items())
    say(description, as_json, "\n".join(lines))


@app.command(epilog="Example:  polyad scenes")
def scenes(as_json: AsJson = False) -> None:
    """List the scenes known by name, and whether their files are here."""
    from polyad.scene.files.known import list_known

    rows = list_known()
    lines = [
        f"{row['name']:<18}{row['size']:<38}{row['classes']:>3} classes   "
        f"{'ready' if row['here'] else 'polyad fetch ' + row['name']}"
        for row in rows
    ]
    say({"scenes": rows}, as_json, "\n".join(lines))


def repeat_options(arguments: Sequence[str], names: Set[str]) -> list[str]:
    """Give each further value of an option in ``names`` an option of its own.

    Examples
    --------
    >>> repeat_options(["--model", "rank-1", "cnn", "--jobs", "2"], {"--model"})
    ['--model', 'rank-1', '--model', 'cnn', '--jobs', '2']
    """
    out: list[str] = []
    option, has_value = "", False
    for argument in arguments:
        if argument.startswith("-"):
            option, equals, _ = argument.partition("=")
            has_value = bool(equals)
        else:
            out += [option] * (has_value and option in names)
            has_value = True
        out.append(argument)
    return out


class _Lists(TyperCommand):
    """A command without arguments, whose options take one value or several."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        names = {name for option in self.params for name in option.opts if option.multiple}
        return super().parse_args(ctx, repeat_options(args, names))


@app.command(cls=_Lists, epilog="Example:  polyad reproduce --model rank-1 cnn --runs 3 --jobs 2")
def reproduce(
    scene: Annotated[list[str] | None, typer.Option(help="One or more scenes.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="One or more of rank-1 to rank-5, cnn, dense, svm-...")
    ] = None,
    samples_per_class: Annotated[
        list[int] | None, typer.Option(help="Training pixels of each class; one or more numbers.")
    ] = None,
    noise: Annotated[
        list[str] | None, typer.Option(help="One or more of none, pixel, band-offset.")
    ] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="One or more of random, other-fields, blocks.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Seeds; 0 writes the report alone.")] = 10,
    epochs: Annotated[int, typer.Option(help="Epochs of each run.")] = 500,
    jobs: Annotated[int, typer.Option(help="Processes, one thread each.")] = 1,
    cluster: Cluster = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("polyad-paper"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Ranks 1 and 2 and the CNN, 3 runs of 50 epochs.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Run the paper's experiments again: records, tables, figures, report."""
    if not force:
        check_kind(out / "report.html", "report")
    from polyad import experiments

    names = ("scenes", "models", "samples_per_class", "noises", "protocols")
    asked = zip(names, (scene, model, samples_per_class, noise, protocol), strict=True)
    given: dict[str, Any] = {name: values for name, values in asked if values}
    given |= {"runs": runs, "epochs": epochs, "out": out, "quick": quick, "progress": not as_json}
    if cluster is None:
        done = experiments.reproduce(**given, jobs=jobs)
    else:
        from polyad.distributed import reproduce_on

        done = reproduce_on(cluster, **given)
    lost = "".join(f"\nmissing scene: {why}" for why in done.missing.values())
    say(
        done.to_dict(),
        as_json,
        f"{done.runs_done} runs done, {done.runs_there} in the report{lost}\nreport: {done.report}",
    )


@app.command(epilog="Example:  polyad fetch salinas")
def fetch(
    name: Annotated[str, typer.Argument(help="A name that `polyad scenes` lists.")],
    from_file: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Take a file fetched by hand; may be given twice."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a known scene and check it, or take files fetched by hand."""
    known_scene(name)
    from polyad.scene.read.known_scenes import fetch as fetch_scene

    paths = fetch_scene(name, from_file, progress=on_terminal())
    say(
        {"name": name, "files": [str(p) for p in paths]},
        as_json,
        "\n".join(f"{p} is in place" for p in paths) or f"{name} ships with polyad: nothing to do",
    )


@app.callback(invoke_without_command=True)
def _options(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show_version:
        put(polyad.__version__)
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; bad input ends with exit code 2 and one sentence."""
    logging.getLogger("rasterio").addHandler(logging.NullHandler())
    os.environ.setdefault("GDAL_CACHEMAX", "64")  # MB; its default is a twentieth of all memory
    os.environ["PROJ_NETWORK"] = "OFF"  # no grid of a reference system is fetched
    try:
        with warnings.catch_warnings():
            warnings.showwarning = warn
            given = None if arguments is None else list(arguments)
            code = app(args=given, standalone_mode=False)
    except PolyadError as error:
        fail(str(error))
    except BrokenPipeError:  # as in `polyad scenes | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except MemoryError:
        fail("out of memory; map with a smaller --tile or train with fewer --samples-per-class")
    except typer.Abort:
        fail("stopped")
    except Exception as error:
        if not hasattr(error, "show"):  # how Typer's errors of usage are known, whoever raises them
            raise
        misuse(error)
    sys.exit(code if isinstance(code, int) else 0)


def _accuracy(result: Mapping[str, Any]) -> str:
    return (
        f"overall accuracy {100 * result['overall_accuracy']:.1f} % "
        f"({100 * result['overall_accuracy_no_overlap']:.1f} % on windows apart from training), "
        f"average {100 * result['average_accuracy']:.1f} %, kappa {result['kappa']:.3f}"
    )


def _steps(line: str | None) -> str:
    return "" if line is None else f"steps: {line}\n"
