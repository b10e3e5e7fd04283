"""Train: from labeled pixels of a scene to a model file."""

from __future__ import annotations

from qgis.core import (
    QgsProcessingParameterFileDestination,
    QgsProcessingParameterNumber,
)

from . import algorithm, commands

NUMBERS = {  # option: text and least value; empty leaves polyad's default
    "SAMPLES_PER_CLASS": ("Pixels drawn of each class, the others are for Evaluate", 1),
    "RANK": ("Rank of each hidden unit's weights", 1),
    "WINDOW": ("Side of the window around a pixel; odd", 1),
    "SEED": ("Seed of every random choice", 0),
}


class Train(algorithm.PolyadAlgorithm):
    """``polyad train``."""

    NAME, TITLE = "train", "Train"
    HELP = (
        "Fits a Rank-R network on the labeled pixels of a hyperspectral scene and writes it to a "
        "model file, for Map and Evaluate.\n\n"
        "Labels are points, lines or polygons with a field that holds the class, in any reference "
        "system, or a raster of classes on the scene's grid with 0 where nothing is labeled. A "
        "vector layer with unsaved edits or a filter is used as it is shown.\n\n"
        "Presets: fast takes seconds; best takes longer and is made for a few labels, to map this "
        "scene or other scenes; paper is the network as it was published."
    )

    def initAlgorithm(self, configuration=None):
        """Add the choosers."""
        algorithm.add_scene(self)
        algorithm.add_labels(self)
        algorithm.add_preset(self, "fast")
        for name, (text, least) in NUMBERS.items():
            number = QgsProcessingParameterNumber(name, text, optional=True, minValue=least)
            algorithm.add_advanced(self, number)
        algorithm.add_force(self)
        self.addParameter(
            QgsProcessingParameterFileDestination("OUTPUT", "Model", "polyad models (*.polyad)")
        )

    def arguments(self, parameters, context, feedback):
        """Return the words after ``polyad``."""
        scene = algorithm.scene_of(self, parameters, context)
        labels, options = algorithm.labels_of(self, parameters, context, feedback)
        for name in NUMBERS:
            if parameters.get(name) is not None:
                options[name.lower()] = self.parameterAsInt(parameters, name, context)
        self.model = algorithm.output_of(self, parameters, "OUTPUT", context)
        force = self.parameterAsBool(parameters, "FORCE", context)
        options |= algorithm.preset_of(self, parameters, context)
        return commands.train(scene, labels, self.model, force=force, **options)

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command."""
        self.run_command(feedback)
        return {"OUTPUT": self.model}
