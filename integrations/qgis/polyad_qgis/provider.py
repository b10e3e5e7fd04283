"""The provider: the algorithms, and the one setting, in Options > Processing > Providers."""

from __future__ import annotations

from pathlib import Path

from processing.core.ProcessingConfig import ProcessingConfig, Setting
from qgis.core import QgsProcessingProvider
from qgis.PyQt.QtGui import QIcon

from .algorithms import ALGORITHMS

SETTING = "POLYAD_COMMAND"
ICON = str(Path(__file__).with_name("icon.svg"))


class PolyadProvider(QgsProcessingProvider):
    """polyad's algorithms, in the order in which they are used."""

    def id(self):
        """Return the first half of every algorithm's id."""
        return "polyad"

    def name(self):
        """Return the name in the toolbox."""
        return "polyad"

    def longName(self):
        """Return the name with what it is for."""
        return "polyad: maps from a few labels"

    def icon(self):
        """Return the icon in the toolbox."""
        return QIcon(ICON)

    def svgIconPath(self):
        """Return the icon's file."""
        return ICON

    def load(self):
        """Add the setting and the algorithms."""
        ProcessingConfig.settingIcons[self.name()] = self.icon()
        ProcessingConfig.addSetting(
            Setting(
                self.name(),
                SETTING,
                "polyad command (empty: POLYAD_COMMAND of the environment, or polyad on PATH)",
                "",
            )
        )
        ProcessingConfig.readSettings()
        self.refreshAlgorithms()
        return True

    def unload(self):
        """Take the setting away."""
        ProcessingConfig.removeSetting(SETTING)

    def loadAlgorithms(self):
        """Add the algorithms."""
        for name, algorithm in ALGORITHMS.items():
            self.addAlgorithm(algorithm(name))

    def supportedOutputRasterLayerExtensions(self):
        """Return the endings of maps."""
        return ["tif"]

    def supportedOutputVectorLayerExtensions(self):
        """Return the endings of samples."""
        return ["gpkg", "geojson", "csv"]
