"""The benchmark scenes of the field: a table of one row each, nothing else.

Names, keys, sizes and checksums are those of the files that the Grupo de Inteligencia Computacional
of the University of the Basque Country (UPV/EHU) distributes as "Hyperspectral Remote Sensing
Scenes". Label 0 means unlabeled in all of them.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyad.errors import SceneError

_EHU = "https://www.ehu.eus/ccwintco/uploads/"
_NO_LICENSE = "none stated at the source"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a known scene: its address, its checksum and which array to read."""

    address: str
    sha256: str
    bytes: int
    key: str

    @property
    def name(self) -> str:
        """The file's own name, the last part of its address."""
        return self.address.rsplit("/", 1)[1]


@dataclass(frozen=True)
class KnownScene:
    """One row of the table.

    Attributes
    ----------
    title, sensor, citation, license : str
    shape : (height, width, bands)
    pixel_size : float
        Meters on the ground.
    class_names : tuple of str
        Names of classes 1, 2, ...
    cube, labels : RemoteFile
    bundled : bool
        True if the scene comes with an installed package and needs no file.
    note : str
        What a user of its labels should know.
    """

    title: str
    sensor: str
    shape: tuple[int, int, int]
    pixel_size: float
    class_names: tuple[str, ...]
    cube: RemoteFile
    labels: RemoteFile
    citation: str
    license: str = _NO_LICENSE
    bundled: bool = False
    note: str = ""

    @property
    def files(self) -> tuple[RemoteFile, RemoteFile]:
        """The cube's and the labels' file."""
        return self.cube, self.labels


def _ehu(path: str, sha256: str, size: int, key: str) -> RemoteFile:
    return RemoteFile(_EHU + path, sha256, size, key)


KNOWN_SCENES: dict[str, KnownScene] = {
    "indian-pines": KnownScene(
        title="Indian Pines",
        sensor="AVIRIS",
        shape=(145, 145, 200),
        pixel_size=20.0,
        class_names=(
            "Alfalfa", "Corn-notill", "Corn-mintill", "Corn", "Grass-pasture", "Grass-trees",
            "Grass-pasture-mowed", "Hay-windrowed", "Oats", "Soybean-notill", "Soybean-mintill",
            "Soybean-clean", "Wheat", "Woods", "Buildings-Grass-Trees-Drives",
            "Stone-Steel-Towers",
        ),
        cube=_ehu(
            "6/67/Indian_pines_corrected.mat",
            "ec2f8808710919d566f70f0d4aa885aae1ddfd42b734aba71c5e12ca65450939",
            5953527, "indian_pines_corrected",
        ),
        labels=_ehu(
            "c/c4/Indian_pines_gt.mat",
            "65c4687a8ab04f6da4789799bc3bc4f6e88bccac3ed6a2e6ae367e5e6b9e429c",
            1125, "indian_pines_gt",
        ),
        citation=(
            "M. F. Baumgardner, L. L. Biehl, D. A. Landgrebe, 220 Band AVIRIS Hyperspectral Image "
            "Data Set: June 12, 1992 Indian Pine Test Site 3, Purdue University Research "
            "Repository, 2015, doi:10.4231/R7RX991C"
        ),
        license="CC-BY 3.0, as stated by TensorLy",
        bundled=True,
        note="bands 104-108, 150-163 and 220 of 220 are removed (water absorption)",
    ),
    "pavia-university": KnownScene(
        title="Pavia University",
        sensor="ROSIS",
        shape=(610, 340, 103),
        pixel_size=1.3,
        class_names=(
            "Asphalt", "Meadows", "Gravel", "Trees", "Painted metal sheets", "Bare Soil",
            "Bitumen", "Self-Blocking Bricks", "Shadows",
        ),
        cube=_ehu(
            "e/ee/PaviaU.mat",
            "28447fa87f7a5797845e9a189c0da85e23b1d06a4ba7361e5ff44efbf834d2fb",
            34806917, "paviaU",
        ),
        labels=_ehu(
            "5/50/PaviaU_gt.mat",
            "23f6a426928f9b32984adffe659e29f554f9fb6c93b5a107528d308d5087a829",
            11005, "paviaU_gt",
        ),
        citation=(
            "P. Gamba, Telecommunications and Remote Sensing Laboratory, University of Pavia"
        ),
    ),
    "botswana": KnownScene(
        title="Botswana",
        sensor="Hyperion (EO-1)",
        shape=(1476, 256, 145),
        pixel_size=30.0,
        class_names=(
            "Water", "Hippo grass", "Floodplain grasses 1", "Floodplain grasses 2", "Reeds",
            "Riparian", "Firescar", "Island interior", "Acacia woodlands", "Acacia shrublands",
            "Acacia grasslands", "Short mopane", "Mixed mopane", "Exposed soils",
        ),
        cube=_ehu(
            "7/72/Botswana.mat",
            "f1603903c844cdc2980550b0180688e8e1a72d4292595d1120e1dec2a80a91c7",
            78911133, "Botswana",
        ),
        labels=_ehu(
            "5/58/Botswana_gt.mat",
            "668394905e10e629c16584bfd02b0f533b96d6ba18a63274a94ff3a77126a887",
            4039, "Botswana_gt",
        ),
        citation=(
            "J. Ham, Y. Chen, M. M. Crawford, J. Ghosh, Investigation of the random forest "
            "framework for classification of hyperspectral data, IEEE TGRS 43(3), 492-501, 2005"
        ),
        note="bands 10-55, 82-97, 102-119, 134-164 and 187-220 of 242 are kept",
    ),
    "salinas": KnownScene(
        title="Salinas",
        sensor="AVIRIS",
        shape=(512, 217, 204),
        pixel_size=3.7,
        class_names=(
            "Brocoli_green_weeds_1", "Brocoli_green_weeds_2", "Fallow", "Fallow_rough_plow",
            "Fallow_smooth", "Stubble", "Celery", "Grapes_untrained", "Soil_vinyard_develop",
            "Corn_senesced_green_weeds", "Lettuce_romaine_4wk", "Lettuce_romaine_5wk",
            "Lettuce_romaine_6wk", "Lettuce_romaine_7wk", "Vinyard_untrained",
            "Vinyard_vertical_trellis",
        ),
        cube=_ehu(
            "a/a3/Salinas_corrected.mat",
            "5ec1c0d22f56d18ecd336f8e35735863c0f160682e04e0c18ef3f89a3334d87d",
            26552770, "salinas_corrected",
        ),
        labels=_ehu(
            "f/fa/Salinas_gt.mat",
            "ecfab4d31ef5553f097943235d8ea502038eb4a2067b2ad10b33e37c949955e2",
            4277, "salinas_gt",
        ),
        citation="AVIRIS scene over Salinas Valley, California; distributed by GIC, UPV/EHU",
    ),
    "ksc": KnownScene(
        title="Kennedy Space Center",
        sensor="AVIRIS",
        shape=(512, 614, 176),
        pixel_size=18.0,
        class_names=(
            "Scrub", "Willow swamp", "Cabbage palm hammock", "Cabbage palm/oak hammock",
            "Slash pine", "Oak/broadleaf hammock", "Hardwood swamp", "Graminoid marsh",
            "Spartina marsh", "Cattail marsh", "Salt marsh", "Mud flats", "Water",
        ),
        cube=_ehu(
            "2/26/KSC.mat",
            "b1ad011cfdb65c853e4f9f6108ca4774467d87f90a5c23b74ff3a2984a3b4786",
            56824624, "KSC",
        ),
        labels=_ehu(
            "a/a6/KSC_gt.mat",
            "a1d6ab9293691006bd4d9742d1a1e1c141b1aaa5fbc5fa128b33c1d09038510b",
            3240, "KSC_gt",
        ),
        citation=(
            "AVIRIS scene over Kennedy Space Center, Florida, 1996; distributed by GIC, UPV/EHU"
        ),
    ),
    "pavia-centre": KnownScene(
        title="Pavia Center",
        sensor="ROSIS",
        shape=(1096, 715, 102),
        pixel_size=1.3,
        class_names=(
            "Water", "Trees", "Asphalt", "Self-Blocking Bricks", "Bitumen", "Tiles", "Shadows",
            "Meadows", "Bare Soil",
        ),
        cube=_ehu(
            "e/e3/Pavia.mat",
            "b60341da323fd271cd97dd6d7a69514d385ccd7fdfc5a60c4ff5994b047f152e",
            129624657, "pavia",
        ),
        labels=_ehu(
            "5/53/Pavia_gt.mat",
            "7eb54ab81b404dd3ae572e6d0ec211595029e5a847bec2cfb8f9e72d07066b69",
            34887, "pavia_gt",
        ),
        citation=(
            "P. Gamba, Telecommunications and Remote Sensing Laboratory, University of Pavia"
        ),
        note="publications disagree on which name belongs to classes 3 and 5 to 9",
    ),
}  # fmt: skip


def known_scene(name: str) -> KnownScene:
    """Return the row of ``name``, or say which names there are.

    Examples
    --------
    >>> known_scene("indian-pines").shape
    (145, 145, 200)
    """
    if name in KNOWN_SCENES:
        return KNOWN_SCENES[name]
    near = nearest_known(name)
    hint = f"; did you mean {near!r}?" if near else ""
    raise SceneError(f"{name!r} is not a known scene ({', '.join(KNOWN_SCENES)}){hint}")


def nearest_known(name: str) -> str | None:
    """Return the known scene whose name is most like ``name``, None if none is.

    Examples
    --------
    >>> nearest_known("Indian_Pine")
    'indian-pines'
    """
    near = difflib.get_close_matches(name.lower().replace("_", "-"), KNOWN_SCENES, n=1)
    return near[0] if near else None


def data_folder() -> Path:
    """Return where fetched scenes are kept: ``$POLYAD_DATA``, else the user's cache folder."""
    import pooch  # here, for those who only ask what is known

    return Path(os.environ.get("POLYAD_DATA") or pooch.os_cache("polyad"))


def list_known() -> list[dict[str, Any]]:
    """Return a plain row for each known scene: name, size, classes, whether its files are here."""
    return [
        {
            "name": name,
            "title": row.title,
            "sensor": row.sensor,
            "size": "{} rows x {} columns, {} bands".format(*row.shape),
            "classes": len(row.class_names),
            "here": row.bundled or all((data_folder() / f.name).exists() for f in row.files),
        }
        for name, row in KNOWN_SCENES.items()
    ]
