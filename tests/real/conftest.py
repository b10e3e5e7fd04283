"""Products as they were downloaded, where they lie beside the repository."""

from pathlib import Path

import pytest

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def pavia():
    """The file of a crop of Pavia University with its ground truth."""
    path = DATA / "UPavia_Subset.mat"
    if not path.is_file():
        pytest.skip(f"needs the crop of Pavia University in {path.name}, which is not there")
    return path


@pytest.fixture(scope="session")
def potsdam():
    """The folder of an EnMAP scene of Potsdam with its labels."""
    folder = DATA / "enmap_potsdam"
    if not folder.is_dir():
        pytest.skip(f"needs the EnMAP scene of Potsdam in {folder.name}, which is not there")
    return folder
