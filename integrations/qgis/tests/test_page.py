"""What docs/qgis.md shows of QGIS, as a reader would paste it."""

import re
import shutil
import subprocess


def blocks(page):
    """Return the blocks that the page leaves to `make test-qgis`."""
    mark = r"<!-- not run: [^\n]*make test-qgis runs it -->\n```sh\n(.*?)^```$"
    return re.findall(mark, page.read_text(), re.M | re.S)


def test_commands_of_the_page_run_in_qgis(qgis, campaign, root, tmp_path):
    folder = tmp_path / "campaign"
    shutil.copytree(campaign, folder)
    shown = blocks(root / "docs/qgis.md")
    assert len(shown) == 1
    qgis.process("plugins", "disable", "polyad_qgis")  # the page enables it
    for code in shown:
        done = subprocess.run(
            ["sh", "-e", "-c", code],
            cwd=folder, env=qgis.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    written = {path.name for path in folder.iterdir()}
    assert {"model.polyad", "map.tif", "sample.gpkg"} <= written
    assert "OVERALL_ACCURACY" in done.stdout
