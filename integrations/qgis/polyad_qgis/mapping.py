"""Map: from a model and a scene to a class map, which is loaded with its style."""

from __future__ import annotations

from pathlib import Path

from qgis.core import (
    QgsProcessingLayerPostProcessorInterface,
    QgsProcessingParameterRasterDestination,
)

from . import algorithm, commands

BESIDE = {  # optional rasters beside the map
    "PROBABILITIES": "Probability of each class",
    "UNCERTAINTY": "Uncertainty",
}


class Map(algorithm.PolyadAlgorithm):
    """``polyad map``."""

    NAME, TITLE = "map", "Map"
    HELP = (
        "Maps every pixel of a scene with a model that Train has made, tile by tile, in as little "
        "memory as a tile needs. The map is a GeoTIFF with class names and colors, and is shown "
        "with them.\n\n"
        "Beside it can be written: the probability of each class, one band for each, and the "
        "uncertainty of each pixel, as one minus the largest probability, margin and entropy."
    )

    def initAlgorithm(self, configuration=None):
        """Add the choosers."""
        algorithm.add_model(self)
        algorithm.add_scene(self)
        algorithm.add_force(self)
        self.addParameter(QgsProcessingParameterRasterDestination("OUTPUT", "Map"))
        for name, text in BESIDE.items():
            self.addParameter(
                QgsProcessingParameterRasterDestination(
                    name, text, optional=True, createByDefault=False
                )
            )

    def arguments(self, parameters, context, feedback):
        """Return the words after ``polyad``."""
        model = self.parameterAsFile(parameters, "MODEL", context)
        scene = algorithm.scene_of(self, parameters, context)
        self.map = self.parameterAsOutputLayer(parameters, "OUTPUT", context)
        asked = {name: self.parameterAsOutputLayer(parameters, name, context) for name in BESIDE}
        self.beside = {name: path for name, path in asked.items() if path}
        options = {name.lower(): path for name, path in self.beside.items()}
        options["force"] = self.parameterAsBool(parameters, "FORCE", context)
        return commands.map_scene(model, scene, self.map, **options)

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command, and have the style loaded with the map."""
        self.run_command(feedback)
        if context.willLoadLayerOnCompletion(self.map):
            details = context.layerToLoadOnCompletionDetails(self.map)
            details.setPostProcessor(StyleBeside.instance())
        return {"OUTPUT": self.map, **self.beside}


class StyleBeside(QgsProcessingLayerPostProcessorInterface):
    """Loads ``map.qml`` with ``map.tif``; Processing itself loads results without their styles."""

    _only = None

    @classmethod
    def instance(cls):
        """Return the one instance: QGIS keeps no reference to it."""
        cls._only = cls._only or cls()
        return cls._only

    def postProcessLayer(self, layer, context, feedback):
        """Load the style where there is one; otherwise the palette of the GeoTIFF is shown."""
        style = Path(layer.source()).with_suffix(".qml")
        if style.is_file():
            layer.loadNamedStyle(str(style))
            layer.triggerRepaint()
