"""The plugin: it adds a provider to Processing, and takes it away."""

from __future__ import annotations

from qgis.core import QgsApplication

from .provider import PolyadProvider


class PolyadPlugin:
    """What QGIS loads; ``qgis_process`` calls `initProcessing` alone."""

    def __init__(self, iface):
        self.iface = iface
        self.provider = None

    def initProcessing(self):
        """Add the provider."""
        self.provider = PolyadProvider()
        QgsApplication.processingRegistry().addProvider(self.provider)

    def initGui(self):
        """Add the provider; there is nothing else to see."""
        self.initProcessing()

    def unload(self):
        """Take the provider away."""
        if self.provider is not None:
            QgsApplication.processingRegistry().removeProvider(self.provider)
            self.provider = None
