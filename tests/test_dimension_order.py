"""Every public function gives one result, in whatever order the dimensions of its scene come."""

import importlib
import inspect
import pkgutil
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import xarray as xr
from affine import Affine
from matplotlib.figure import Figure

import polyad.app
import polyad.distributed
import polyad.scene
from polyad.app.check_launch import prepare_check
from polyad.app.launch import prepare
from polyad.app.workspace import Workspace
from polyad.distributed import map_files, map_lazy
from polyad.distributed.plans import plan_scene
from polyad.scene.assess.cross_validation import cross_validate
from polyad.scene.assess.evaluation import (
    evaluate,
    examine,
    held_out,
    map_pixels,
)
from polyad.scene.assess.provenance import RunRecord
from polyad.scene.assess.report import report_document, write_report
from polyad.scene.assess.sample import draw_sample
from polyad.scene.assess.value_evaluation import examine_values
from polyad.scene.draw.charts import class_spectra
from polyad.scene.draw.color import color_bands, false_color
from polyad.scene.draw.figures import comparison, map_figure, spectra_figure, to_png
from polyad.scene.draw.values import value_figure
from polyad.scene.learn.adaptation import adapt_model, find_adaptation
from polyad.scene.learn.fixed import FixedSplit
from polyad.scene.learn.model import SceneModel, fingerprint, trained_model
from polyad.scene.learn.noise import band_offset, pixel_noise
from polyad.scene.learn.presets import train_best, train_fast
from polyad.scene.learn.protocols import Blocks, NoOverlap, OtherFields, RandomPerClass
from polyad.scene.learn.radiometry import (
    light_of,
    prepared,
    radiometry_of,
    repairs_soundness,
    replaced_pixels,
    sample_pixels,
)
from polyad.scene.learn.samples import Samples, ViewSamples
from polyad.scene.learn.sampling import blocks, fraction, from_labels, per_class
from polyad.scene.learn.scene_statistics import graph_statistics, scene_statistics
from polyad.scene.learn.steps.experts import Expert
from polyad.scene.learn.steps.whitening import NoiseWhitening
from polyad.scene.learn.training import default_statistics, train, train_on
from polyad.scene.learn.values import train_values
from polyad.scene.map.classifier import as_scene_model
from polyad.scene.map.mapping import (
    blank_map,
    iter_map,
    map_file,
    map_scene,
    scene_tiles,
    tile_mapper,
)
from polyad.scene.map.refining import (
    active_steps,
    needs_whole_scene,
    propagated_shares,
    refiner,
    warn_of_other_scene,
)
from polyad.scene.map.sets import prediction_sets
from polyad.scene.map.share_cache import scene_digest
from polyad.scene.map.values import map_values
from polyad.scene.raster.band_choice import select_bands, usable_bands
from polyad.scene.raster.classes import ClassInfo, with_classes
from polyad.scene.raster.dims import as_labels, as_scene
from polyad.scene.raster.georeference import georeference
from polyad.scene.raster.groups import with_groups
from polyad.scene.raster.inside import (
    bbox_mask,
    mask_scene,
    masked,
    packed,
    pixel_dtype,
    read_pixels,
    unpacked,
)
from polyad.scene.raster.lazy import describe
from polyad.scene.raster.legend import merge_labels
from polyad.scene.raster.patches import extract_patches, iter_patches
from polyad.scene.raster.pixels import valid_mask
from polyad.scene.raster.tiles import Tile, read_block, read_window
from polyad.scene.read.labels import check_labels, drop_nodata, open_labels
from polyad.scene.read.masks import open_mask, restrict_scene
from polyad.scene.read.scenes import open_scene, scene_from_array
from polyad.scene.read.values import open_values
from polyad.scene.write.writers import write_map

N = 18  # rows, columns and bands alike: no axis can be told from another by its length
DEGREES = Affine(0.01, 0, 10.0, 0, -0.01, 50.0)
BBOX = (10.015, 49.865, 10.155, 49.985)
CLASSES = [ClassInfo(1, "Corn", "#4477AA"), ClassInfo(2, "Oats", "#EE7733")]


def cubic_scene():
    """A scene as `open_scene` gives it, with one pixel of nodata."""
    values = np.random.default_rng(0).normal(5, 1, (N, N, N))
    values += 2 * np.sin(np.arange(N)) * (np.arange(N) >= N // 2)[:, None, None]
    values[3, 5] = -9999
    return scene_from_array(
        values.astype(np.float32),
        wavelength=450.0 + 25.0 * np.arange(N),
        crs="EPSG:4326",
        transform=DEGREES,
        nodata=-9999,
    ).rename("reflectance")


def cubic_labels():
    ids = np.zeros((N, N), np.uint16)
    ids[1:8, 2:7], ids[10:16, 1:5] = 1, 2
    ids[2:5, 12:16], ids[13:17, 9:17] = 1, 2
    raster = with_classes(xr.DataArray(ids, dims=("y", "x")), CLASSES)
    return describe(raster, crs="EPSG:4326", transform=DEGREES)


def archive(scene):
    """The scene as a climate archive keeps it: other names, another order, a time, a Dataset."""
    found = scene.swap_dims(band="wavelength").rename(y="latitude", x="longitude")
    found = found.expand_dims(time=1).transpose("time", "wavelength", "latitude", "longitude")
    return xr.Dataset({"reflectance": found, "quality": found.isel(wavelength=0)})


def turned(labels):
    return labels.expand_dims("band").transpose("band", "x", "y")


SCENES = {
    "rioxarray": lambda scene: scene.transpose("band", "y", "x"),
    "archive": archive,
}


@pytest.fixture(scope="module")
def model():
    options = {"samples_per_class": 10, "window": 3, "epochs": 30, "preset": "fast"}
    return train(cubic_scene(), cubic_labels(), **options)


@pytest.fixture(scope="module")
def class_map(model):
    found = map_scene(model, cubic_scene())
    assert min(np.bincount(found.values.ravel())[1:]) > N  # a map of one class is like any other
    return found


class Given:
    """What a function of the table below is called with."""

    def __init__(self, scene, labels, class_map, model, folder):
        self.scene, self.labels, self.class_map = scene, labels, class_map
        self.model, self.folder = model, folder
        self.pixels = np.argwhere(cubic_labels().values > 0)
        self.split = per_class(drop_nodata(cubic_scene(), cubic_labels()), 10, 0)

    def path(self, name):
        return self.folder / name


def tiles_of(pieces):
    return [part for piece in pieces for part in piece if part is not None]


def a_file(call, name):
    def made(g):
        call(g, g.path(name))
        return g.path(name).read_bytes()

    return made


def on_disk(g):
    """A cluster's workers read for themselves, so the scene must be one of a file."""
    path = g.path("scene.npy")
    np.save(path, cubic_scene().values)
    lazy = open_scene(path)
    return lazy if g.scene.dims == ("y", "x", "band") else lazy.transpose("band", "y", "x")


def refined_tile(g):
    steps = ({"step": "guided", "radius": 1, "ridge": 0.1, "mean": np.zeros(N).tolist(),
              "projection": np.eye(N, 2).tolist()},)  # fmt: skip
    flat = lambda tile: np.full((*tile.shape, 2), 0.5) + np.arange(2) * 0.1  # noqa: E731
    return refiner(g.model, g.scene, steps, flat)(Tile(slice(0, 9), slice(4, N)))


def shares(g):
    targets = np.arange(len(g.model.training["pixels"])) % 2
    step = {"settings": {"walk": 5}, "targets": targets, "weights": [1.0, 0.2]}
    return propagated_shares(g.model, g.scene, step).logs


def labeling(make):
    def made(g):
        thing = make(g)
        workspace = getattr(thing, "workspace", thing)
        try:
            truth = workspace.truth.values.tolist()
            return (
                workspace.about(),
                workspace.spectrum(2, 7),
                workspace.session.snapshot().labels,
                truth,
            )
        finally:
            workspace.close()
            if thing is not workspace:
                thing._socket.close()

    return made


def checking(g):
    """Return what the page tells of a sample: its points, and the spectrum of a pixel."""
    draw_sample(g.class_map, 6).save(g.path("sample.csv"))
    opened = prepare_check(g.scene, g.path("sample.csv"), g.class_map, journal=g.path("c.jsonl"))
    try:
        return opened.workspace.state()["points"], opened.workspace.spectrum(2, 7)
    finally:
        opened.workspace.close()
        opened._socket.close()


def measured(g):
    """Return numbers at the labeled pixels, columns first where the labels have them first."""
    labels = as_labels(g.labels)
    values = xr.where(labels > 0, labels.astype(float), np.nan)
    return values if g.labels.dims == labels.dims else values.transpose("x", "y")


def value_model(some=lambda labels, first: labels):
    scene, labels = cubic_scene(), some(cubic_labels(), 0)
    values = xr.where(labels > 0, labels.astype(float), np.nan)
    return train_values(scene, values, window=1, epochs=2)


def as_dask(scene):
    return scene.chunk({d: 9 for d in ("y", "x", "latitude", "longitude") if d in scene.dims})


def every_other_row(labels, first):
    return labels * xr.DataArray((np.arange(N) % 2 == first).astype(np.uint16), dims="y")


def points(g):
    g.path("points.csv").write_text("lon,lat,class\n10.055,49.975,1\n10.125,49.905,2\n")
    return g.path("points.csv")


def a_view(scene):
    """Return the plain view of a scene's spectra."""
    return NoiseWhitening.of_spectra(as_scene(scene).values.reshape(-1, as_scene(scene).shape[2]))


def a_mask_file(g):
    np.save(g.path("mask.npy"), cubic_labels().values)
    return g.path("mask.npy")


def page(g):
    found = examine(g.model, cubic_scene(), cubic_labels())
    result = found.to_dict() | {"fit_seconds": 1.0, "map_seconds": 1.0}
    given = {"title": "t", "record": RunRecord("c", "2026-01-01T00:00:00+00:00", {})}
    document = report_document(g.model, g.scene, g.class_map, found, result, **given)
    return document.json, document.page()


# Every public function that takes a scene or labels, called.
CALLS = {
    "app.workspace.Workspace.__init__": labeling(
        lambda g: Workspace(g.scene, g.labels, g.labels, journal=g.path("a.jsonl"))
    ),
    "app.launch.prepare": labeling(
        lambda g: prepare(g.scene, g.labels, g.labels, journal=g.path("b.jsonl"))
    ),
    "app.check_launch.prepare_check": checking,
    "distributed.blocks.map_lazy": lambda g: map_lazy(
        g.model, as_dask(g.scene), probabilities=True
    ).compute(),
    "distributed.maps.map_files": a_file(
        lambda g, path: map_files(g.model, on_disk(g), path, tile=7), "cluster.tif"
    ),
    "distributed.plans.plan_scene": lambda g: plan_scene(
        g.model, on_disk(g), g.path("m.tif"), tile=7
    )[1].tiles,
    "draw.color.color_bands": lambda g: color_bands(g.scene),
    "draw.color.false_color": lambda g: false_color(g.scene),
    "assess.cross_validation.cross_validate": lambda g: cross_validate(
        g.scene, g.labels, window=1, epochs=2, pixelwise=False
    ).to_dict(),
    "assess.value_evaluation.examine_values": lambda g: examine_values(
        value_model(every_other_row), g.scene, measured(g)
    ).to_dict()["targets"],
    "draw.values.value_figure": lambda g: to_png(  # its layout moves when it is drawn again
        value_figure(map_values(value_model(), g.scene), value_model().value_fit.targets), dpi=40
    ),
    "learn.fixed.FixedSplit.__init__": lambda g: FixedSplit(
        every_other_row(g.labels, 0), every_other_row(g.labels, 1)
    ).labels,
    "learn.fixed.FixedSplit.split": lambda g: FixedSplit(
        every_other_row(cubic_labels(), 0), every_other_row(cubic_labels(), 1)
    ).split(g.labels, 0),
    "learn.values.train_values": lambda g: train_values(
        g.scene, measured(g), window=1, epochs=2
    ).value_fit,
    "map.sets.prediction_sets": lambda g: prediction_sets(
        g.model, map_scene(g.model, g.scene, probabilities=True)[1], 0.8
    ),
    "map.values.map_values": lambda g: map_values(value_model(), g.scene),
    "raster.groups.with_groups": lambda g: with_groups(g.labels, cubic_labels().values)["group"],
    "read.values.open_values": lambda g: open_values(points(g), g.scene, field="class"),
    "assess.evaluation.evaluate": lambda g: evaluate(g.model, g.scene, g.labels),
    "assess.evaluation.examine": lambda g: examine(g.model, g.scene, g.labels).confidence,
    "assess.evaluation.held_out": lambda g: held_out(g.model, g.scene, g.labels),
    "assess.evaluation.map_pixels": lambda g: map_pixels(g.model, g.scene, g.pixels),
    "assess.sample.draw_sample": lambda g: draw_sample(g.class_map, 12).pixels,
    "map.share_cache.scene_digest": lambda g: scene_digest(g.scene),
    "draw.charts.class_spectra": lambda g: class_spectra(g.scene, g.labels)[1:],
    "draw.figures.comparison": lambda g: comparison(g.scene, g.labels, g.class_map),
    "draw.figures.map_figure": lambda g: map_figure(g.class_map),
    "draw.figures.spectra_figure": lambda g: spectra_figure(g.scene, g.labels),
    "read.labels.check_labels": lambda g: check_labels(g.scene, g.labels),
    "read.labels.drop_nodata": lambda g: drop_nodata(g.scene, g.labels),
    "read.labels.open_labels": lambda g: open_labels(points(g), g.scene),
    "map.mapping.tile_mapper": lambda g: tile_mapper(g.model, g.scene, True)(
        Tile(slice(2, 9), slice(4, N))
    ),
    "map.classifier.as_scene_model": lambda g: as_scene_model(g.model.estimator, g.scene).bands,
    "map.mapping.blank_map": lambda g: blank_map(g.model, g.scene),
    "map.mapping.iter_map": lambda g: tiles_of(iter_map(g.model, g.scene, True, tile=7)),
    "map.mapping.map_file": a_file(lambda g, path: map_file(g.model, g.scene, path), "map.tif"),
    "map.mapping.map_scene": lambda g: map_scene(g.model, g.scene, probabilities=True),
    "map.mapping.scene_tiles": lambda g: scene_tiles(g.scene, 7),
    "learn.model.SceneModel.view": lambda g: g.model.view(g.scene).sizes,
    "learn.model.SceneModel.learned_from": lambda g: g.model.learned_from(g.scene) or 1 / 0,
    "learn.model.fingerprint": lambda g: fingerprint(g.scene),
    "learn.model.trained_model": lambda g: trained_model(
        g.scene, g.labels, g.model.estimator, 3, g.pixels
    ).wavelength,
    "learn.adaptation.adapt_model": lambda g: adapt_model(g.model, g.scene).adapted,
    "learn.adaptation.find_adaptation": lambda g: find_adaptation(g.model, g.scene),
    "learn.radiometry.light_of": lambda g: light_of(g.scene).quantiles,
    "learn.radiometry.prepared": lambda g: prepared(g.scene).sizes,
    "learn.radiometry.radiometry_of": lambda g: radiometry_of(g.scene, g.pixels),
    "learn.radiometry.repairs_soundness": lambda g: repairs_soundness(g.scene),
    "learn.radiometry.replaced_pixels": lambda g: replaced_pixels(prepared(g.scene)),
    "learn.radiometry.sample_pixels": lambda g: sample_pixels(g.scene),
    "learn.noise.band_offset": lambda g: band_offset(g.scene, random_state=0),
    "learn.noise.pixel_noise": lambda g: pixel_noise(g.scene, random_state=0),
    "raster.band_choice.select_bands": lambda g: select_bands(g.scene, drop_nm="500-600").values,
    "raster.band_choice.usable_bands": lambda g: usable_bands(g.scene).values,
    "raster.patches.extract_patches": lambda g: extract_patches(g.scene, *g.pixels.T, 3),
    "raster.patches.iter_patches": lambda g: tiles_of(iter_patches(g.scene, *g.pixels.T, 3)),
    "learn.scene_statistics.graph_statistics": lambda g: (
        graph_statistics(g.scene).graphs[0].data
    ),
    "learn.scene_statistics.scene_statistics": lambda g: (
        scene_statistics(g.scene, "other-scenes").whitening.mean_
    ),
    "learn.presets.train_fast": lambda g: train_fast(
        g.scene, g.labels, g.pixels, window=3, epochs=2
    ),
    "learn.presets.train_best": lambda g: train_best(
        g.scene, g.labels, g.pixels, goal="other-scenes", window=3, starts=1, folds=0, epochs=2
    ),
    "learn.protocols.Blocks.split": lambda g: Blocks(4, 3, size=6).split(g.labels, 0),
    "learn.protocols.NoOverlap.split": lambda g: NoOverlap(4, 3).split(g.labels, 0),
    "learn.protocols.OtherFields.split": lambda g: OtherFields(4, 3).split(g.labels, 0),
    "learn.protocols.RandomPerClass.split": lambda g: RandomPerClass(4, 3).split(g.labels, 0),
    "read.scenes.scene_from_array": lambda g: scene_from_array(g.scene),
    "raster.inside.mask_scene": lambda g: mask_scene(g.scene, g.labels)["inside"].values,
    "raster.inside.bbox_mask": lambda g: bbox_mask(g.scene, BBOX),
    "raster.inside.masked": lambda g: masked(mask_scene(g.scene, g.labels)),
    "raster.inside.packed": lambda g: packed(mask_scene(g.scene, g.labels)),
    "raster.inside.pixel_dtype": lambda g: pixel_dtype(as_scene(g.scene)),
    "raster.inside.read_pixels": lambda g: read_pixels(
        mask_scene(g.scene, g.labels), slice(2, 9), slice(4, N)
    ),
    "raster.inside.unpacked": lambda g: unpacked(
        g.scene, packed(mask_scene(g.scene, g.labels))
    )["inside"].values,
    "read.masks.open_mask": lambda g: open_mask(a_mask_file(g), g.scene).values,
    "read.masks.restrict_scene": lambda g: restrict_scene(g.scene, mask=g.labels, bbox=BBOX)[
        "inside"
    ].values,
    "raster.pixels.valid_mask": lambda g: valid_mask(g.scene),
    "map.refining.active_steps": lambda g: active_steps(g.model, g.scene),
    "map.refining.needs_whole_scene": lambda g: needs_whole_scene(g.model, g.scene),
    "map.refining.propagated_shares": shares,
    "map.refining.refiner": refined_tile,
    "map.refining.warn_of_other_scene": lambda g: warn_of_other_scene(g.model, g.scene),
    "learn.sampling.Split.classes_of": lambda g: g.split.classes_of(g.labels),
    "learn.sampling.blocks": lambda g: blocks(g.labels, 0.5, 0, size=6, window=3),
    "learn.sampling.fraction": lambda g: fraction(g.labels, 0.3, 0),
    "learn.sampling.from_labels": lambda g: from_labels(
        every_other_row(g.labels, 0), every_other_row(g.labels, 1)
    ),
    "learn.sampling.per_class": lambda g: per_class(g.labels, 5, 0),
    "assess.report.report_document": page,
    "assess.report.write_report": lambda g: write_report(
        g.path("r.html"), g.model, g.scene, g.labels, title="t", command="c"
    ).confidence,
    "raster.legend.merge_labels": lambda g: merge_labels(g.labels, "1+2=both"),
    "raster.tiles.read_window": lambda g: read_window(
        g.scene, Tile(slice(2, 9), slice(4, N))
    ),
    "raster.tiles.read_block": lambda g: read_block(g.scene, Tile(slice(2, 9), slice(4, N)), 2),
    "learn.samples.Samples.__init__": lambda g: Samples(g.scene, *g.pixels.T, 3).take(slice(None)),
    "learn.samples.ViewSamples.__init__": lambda g: ViewSamples(
        g.scene, {"plain": a_view(g.scene)}, g.pixels, 3
    ).take(Expert("plain", 3, 1.0)),
    "learn.training.default_statistics": lambda g: default_statistics(
        g.scene, 9, None, "other-scenes", None
    ).whitening.projection_,
    "learn.training.train": lambda g: train(g.scene, g.labels, window=3, epochs=2),
    "learn.training.train_on": lambda g: train_on(
        g.scene, g.labels, g.pixels, window=3, epochs=2
    ),
    "write.writers.write_map": a_file(lambda g, path: write_map(path, g.class_map), "m.tif"),
}  # fmt: skip

# Given a scene by functions of the table, or by `open_scene`, never by a user.
INNER = {
    "app.downloads", "app.trainer", "app.maps", "app.tile_images", "app.session",
    "distributed.outputs", "distributed.plans.ScenePlan", "distributed.worker",
    "read.class_matching", "raster.classes", "assess.evaluation.Examination",
    "assess.evaluation.known_pixels", "read.formats", "raster.grid", "raster.dims",
    "learn.protocols.Protocol", "raster.georeference", "raster.lazy",
    "raster.bands", "raster.band_matching", "raster.inside.cropped_to_mask",
    "raster.inside.read_stored",
    "raster.inside.repairs_of", "raster.scene_tasks.run_here", "learn.steps.tiled",
    "raster.inside.with_repairs",
    "write.writers.write_probabilities", "write.netcdf", "write.writers.add_map",
    "write.writers.add_probabilities", "app.uploads", "write.zarr_map",
    "read.colors.with_legend", "map.refining.scene_shares", "map.refining.keep_shares",
    "map.share_cache.share_key", "learn.drafts", "app.drawing", "app.label_spectra",
    "app.learning", "assess.area_estimates", "assess.designs", "assess.regions",
    "raster.counting", "read.sample_points", "assess.area_report", "assess.mapped_area",
    "assess.model_facts", "assess.report.scene_size", "assess.report.thinned",
    "assess.training_report", "assess.value_training", "app.check_workspace",
    "app.workspace.describe_scene",
    "app.workspace.name_of", "app.workspace.pixel_spectrum",
    "assess.cross_validation.map_labels", "assess.value_evaluation.predict_pixels",
    "learn.held_out", "learn.model.scene_facts", "learn.steps.experts", "learn.training.learnable",
    "learn.training.without_data", "learn.values.check_values", "map.outputs",
    "map.sets.LabelDistance", "map.sets.set_rule", "raster.groups.groups_of", "raster.targets",
    "read.label_groups",
}  # fmt: skip
# They serve until they are stopped, and hand their scene to `prepare` before.
SERVERS = {"app.launch.serve", "app.launch.show", "app.check_launch.check"}


def takers():
    """Return the name of every public function or method that takes a raster, by annotation."""
    kinds = ("DataArray", "Cube", "Labels", "Source")
    found = set()
    for package in (polyad.scene, polyad.app, polyad.distributed):
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            module = importlib.import_module(info.name)
            for name, function in public_functions(module):
                given = [str(p.annotation) for p in inspect.signature(function).parameters.values()]
                if any(kind in annotation for annotation in given for kind in kinds):
                    found.add(
                        f"{module.__name__}.{name}".removeprefix("polyad.").removeprefix("scene.")
                    )
    return found


def public_functions(module):
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            methods = (m for m in vars(thing) if not m.startswith("_") or m == "__init__")
            yield from (
                (f"{name}.{m}", vars(thing)[m])
                for m in methods
                if inspect.isfunction(vars(thing)[m])
            )


def assert_same(got, wanted):
    if isinstance(wanted, xr.DataArray):
        assert got.dims == wanted.dims
        xr.testing.assert_equal(got, wanted)
        assert georeference(got) == georeference(wanted)
    elif isinstance(wanted, SceneModel):
        timed = [m.training | {"seconds": 0.0} for m in (got, wanted)]
        assert_same((timed[0], got.fill), (timed[1], wanted.fill))
        assert_same(got.wavelength, wanted.wavelength)
        weights = [m.estimator.network_.state_dict() for m in (got, wanted)]
        assert_same(*({k: v.numpy() for k, v in w.items()} for w in weights))
    elif isinstance(wanted, Figure):
        assert to_png(got, dpi=40) == to_png(wanted, dpi=40)
    elif is_dataclass(wanted):
        for field in fields(wanted):
            assert_same(getattr(got, field.name), getattr(wanted, field.name))
    elif isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        for key in wanted:
            assert_same(got[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, np.ndarray):
        np.testing.assert_array_equal(got, wanted)
    else:
        assert got == wanted or got is wanted


def test_table_of_calls_holds_every_function_that_takes_a_scene_or_labels():
    inner = {name for name in takers() if name.startswith(tuple(INNER))}
    assert takers() - inner - SERVERS | {"read.scenes.scene_from_array"} == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_result_does_not_depend_on_the_order_of_dimensions(name, model, class_map, tmp_path):
    scene, labels = cubic_scene(), cubic_labels()
    wanted = CALLS[name](Given(scene, labels, class_map, model, tmp_path))
    for form in SCENES:
        (tmp_path / form).mkdir()
        other = SCENES[form](scene), turned(labels), turned(class_map)
        assert_same(CALLS[name](Given(*other, model, tmp_path / form)), wanted)
