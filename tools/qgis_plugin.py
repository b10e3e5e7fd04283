"""Write the QGIS plugin as a zip that QGIS installs: ``python tools/qgis_plugin.py FILE``.

The same files give the same bytes. The license is inside, as QGIS's plugin repository asks.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "integrations/qgis/polyad_qgis"
ENDINGS = (".py", ".svg", ".txt")
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip can name


def files() -> dict[str, Path]:
    """Return the name in the zip of every file of the plugin."""
    own = [path for path in sorted(FOLDER.iterdir()) if path.suffix in ENDINGS]
    return {f"{FOLDER.name}/{path.name}": path for path in [*own, ROOT / "LICENSE"]}


def write(target: Path) -> None:
    """Write the zip under a temporary name and rename it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".part")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files().items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    temporary.replace(target)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    print(sys.argv[1])
