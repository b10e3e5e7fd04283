"""What some algorithms do beyond running their command: style a map, return scores, serve."""

from __future__ import annotations

import json
from pathlib import Path

from qgis.core import (
    QgsProcessingException,
    QgsProcessingLayerPostProcessorInterface,
    QgsProcessingOutputNumber,
    QgsProcessingUtils,
)

from .algorithm import PolyadAlgorithm

SCORES = {  # key in the file of scores: what it is
    "overall_accuracy": "Overall accuracy",
    "average_accuracy": "Average accuracy",
    "kappa": "Kappa",
    "overall_accuracy_no_overlap": "Overall accuracy, windows apart from training",
    "r2": "R2 (regression, first target)",
    "rmse": "RMSE (regression, first target)",
    "n_test": "Test pixels",
}


class Label(PolyadAlgorithm):
    """Serves the page until Cancel, which is its ordinary end."""

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command until Cancel."""
        feedback.setProgressText("The page is served until you press Cancel.")
        try:
            return super().processAlgorithm(parameters, context, feedback)
        except QgsProcessingException:
            if not feedback.isCanceled():
                raise
        return {}


class Map(PolyadAlgorithm):
    """Loads the style with the map."""

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command, and have the style loaded with the map."""
        results = super().processAlgorithm(parameters, context, feedback)
        if context.willLoadLayerOnCompletion(results["OUTPUT"]):
            details = context.layerToLoadOnCompletionDetails(results["OUTPUT"])
            details.setPostProcessor(StyleBeside.instance())
        return results


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


class Evaluate(PolyadAlgorithm):
    """Returns the scores as numbers, for models and scripts."""

    def initAlgorithm(self, configuration=None):
        """Add the rows of the table, and the numbers."""
        super().initAlgorithm(configuration)
        for key, text in SCORES.items():
            self.addOutput(QgsProcessingOutputNumber(key.upper(), text))

    def given(self, parameters, context, feedback):
        """Have the scores written where nobody asked for them too."""
        chosen = super().given(parameters, context, feedback)
        temporary = QgsProcessingUtils.generateTempFilename("scores.json")
        self.scores = chosen["SCORES"] = chosen["SCORES"] or temporary
        return chosen

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command and read the scores."""
        results = super().processAlgorithm(parameters, context, feedback)
        if not self.scores.endswith(".json"):
            return results
        scores = json.loads(Path(self.scores).read_text(encoding="utf-8"))
        scores = {**next(iter(scores.get("targets", [])), {}), **scores}
        numbers = {key.upper(): scores[key] for key in SCORES if scores.get(key) is not None}
        return {**results, **numbers}


# As the toolbox lists them, in the order in which they are used
ALGORITHMS = {
    "label": Label,
    "train": PolyadAlgorithm,
    "train_regression": PolyadAlgorithm,
    "map": Map,
    "evaluate": Evaluate,
    "sample": PolyadAlgorithm,
    "area": PolyadAlgorithm,
}
