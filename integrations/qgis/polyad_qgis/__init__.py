"""polyad in QGIS: its commands as Processing algorithms."""


def classFactory(iface):
    """Return the plugin; QGIS calls this when it loads it."""
    from .plugin import PolyadPlugin

    return PolyadPlugin(iface)
