"""polyad in QGIS: Train, Map, Evaluate and Label as Processing algorithms."""


def classFactory(iface):
    """Return the plugin; QGIS calls this when it loads it."""
    from .plugin import PolyadPlugin

    return PolyadPlugin(iface)
