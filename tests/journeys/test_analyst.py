"""An analyst has a scene and some labels, and wants a map, its accuracy and a page to show.

polyad train    SCENE LABELS --out model.polyad
polyad map      model.polyad SCENE --out map.tif
polyad evaluate model.polyad SCENE TRUTH --report page.html
"""

import re
from itertools import product

import pytest
import rasterio

CAMPAIGNS = {
    "ENVI and CSV": ("scene.hdr", "labels.csv", "truth.tif"),
    "GeoTIFF and GeoJSON": ("scene.tif", "labels.geojson", "truth.tif"),
    "product with bands without data, and CSV": ("product.tif", "labels.csv", "truth.tif"),
    "MAT and raster": (
        "cube.mat:paviaU",
        "cube_gt.mat:paviaU_gt --samples-per-class 10",
        "cube_gt.mat:paviaU_gt",
    ),
}
WISHES = ("", "--preset fast", "--goal other-scenes")
WAYS = [
    pytest.param(campaign, wish, marks=pytest.mark.slow if number else (), id=f"{campaign} {wish}")
    for number, (campaign, wish) in enumerate(product(CAMPAIGNS, WISHES))
]


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize(("campaign", "wish"), WAYS)
def test_from_a_scene_and_labels_to_a_map_its_accuracy_and_a_report(user, land, campaign, wish):
    scene, labels, truth = CAMPAIGNS[campaign]

    printed = user.types(f"polyad train {scene} {labels} --out model.polyad {wish}")
    assert "pixels of 4 classes learned" in printed
    assert "steps: network on " in printed
    assert "spatial cross-validation: " in printed
    if scene == "product.tif":
        told = "bands left out: 2 of .*: 11 .* flagged as bad; 12 .* without data"
        assert re.search(told, printed)

    printed = user.types(f"polyad map model.polyad {scene} --out map.tif")
    assert "1,200 pixels mapped" in printed

    printed = user.types(f"polyad evaluate model.polyad {scene} {truth} --report page.html")
    assert accuracy(printed) > 90
    assert "report: page.html" in printed

    page = (user / "page.html").read_text()
    assert "data:image" in page
    # The page rounds the share itself, the line above has rounded it once already
    rounded = {f"{accuracy(printed) + step:.1f}" for step in (-0.005, 0, 0.005)}
    assert any(share in page for share in rounded)
    with rasterio.open(user / "map.tif") as made:
        class_ids, palette, place = made.read(1), made.colormap(1), (made.crs, made.transform)
        assert made.nodata == 0
    names = re.findall("<Category>(.*?)</Category>", (user / "map.tif.aux.xml").read_text())
    assert len({palette[class_id][:3] for class_id in (1, 2, 3, 4)}) == 4
    if scene.startswith("cube.mat"):  # which knows neither place nor names, and has all its pixels
        assert (class_ids == land.truth).mean() > 0.9
    else:
        assert place == (land.crs, land.grid)
        assert names == ["Unclassified", *land.names]
        assert (class_ids == land.truth)[land.seen].mean() > 0.9
        assert not class_ids[~land.seen].any()


def accuracy(printed):
    """Return the per cent that ``polyad evaluate`` prints first."""
    return float(re.search(r"overall accuracy +([\d.]+)%", printed)[1])
