"""Somebody with many scenes and several cores maps all of them with one command.

polyad map model.polyad 'scenes/*.hdr' --out-dir maps --cluster local:2
"""

import rasterio


def test_many_scenes_on_a_cluster_are_mapped_as_one_by_one(user, model, land):
    (user / "model.polyad").write_bytes(model.read_bytes())
    printed = user.types("polyad map model.polyad 'scenes/*.hdr' --out-dir maps --cluster local:2")
    assert "2,400 pixels" in printed
    assert "maps/north.tif" in printed

    assert {p.name for p in (user / "maps").glob("*.tif")} == {"north.tif", "south.tif"}
    assert not (user / "maps" / "polyad.tiles").exists()  # the ledger goes when all is done
    user.types("polyad map model.polyad scenes/north.hdr --out alone.tif")
    assert (user / "maps" / "north.tif").read_bytes() == (user / "alone.tif").read_bytes()
    with rasterio.open(user / "maps" / "south.tif") as made:
        assert (made.read(1) == land.truth)[land.seen].mean() > 0.9
        assert made.crs == land.crs
