"""Evaluate: how right a model is on labeled pixels that it did not learn from."""

from __future__ import annotations

import json
from pathlib import Path

from qgis.core import (
    QgsProcessingOutputNumber,
    QgsProcessingParameterFileDestination,
    QgsProcessingUtils,
)

from . import algorithm, commands

SCORES = {  # key in the file of scores: what it is
    "overall_accuracy": "Overall accuracy",
    "average_accuracy": "Mean accuracy of the classes",
    "kappa": "Kappa",
    "overall_accuracy_no_overlap": "Overall accuracy, windows apart from training",
    "n_test": "Test pixels",
}


class Evaluate(algorithm.PolyadAlgorithm):
    """``polyad evaluate``."""

    NAME, TITLE = "evaluate", "Evaluate"
    HELP = (
        "Scores a model on labeled pixels. On the scene that it has learned from, those it has "
        "learned are left out, so train with a number of pixels per class, or bring other labels."
        "\n\nThe report is a page with the map, the confusion matrix, spectra and calibration."
    )

    def initAlgorithm(self, configuration=None):
        """Add the choosers."""
        algorithm.add_model(self)
        algorithm.add_scene(self)
        algorithm.add_labels(self)
        algorithm.add_force(self)
        self.addParameter(
            QgsProcessingParameterFileDestination(
                "REPORT", "Report", "HTML files (*.html)", optional=True
            )
        )
        self.addParameter(
            QgsProcessingParameterFileDestination(
                "SCORES", "Scores", "JSON files (*.json);;CSV files (*.csv)",
                optional=True, createByDefault=False,
            )
        )  # fmt: skip
        for key, text in SCORES.items():
            self.addOutput(QgsProcessingOutputNumber(key.upper(), text))

    def arguments(self, parameters, context, feedback):
        """Return the words after ``polyad``."""
        model = self.parameterAsFile(parameters, "MODEL", context)
        scene = algorithm.scene_of(self, parameters, context)
        labels, options = algorithm.labels_of(self, parameters, context, feedback)
        self.outputs = {
            name: algorithm.output_of(self, parameters, name, context)
            for name in ("REPORT", "SCORES")
        }
        self.scores = self.outputs["SCORES"] or QgsProcessingUtils.generateTempFilename("s.json")
        options["force"] = self.parameterAsBool(parameters, "FORCE", context)
        report = self.outputs["REPORT"]
        return commands.evaluate(model, scene, labels, out=self.scores, report=report, **options)

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command and return its scores as numbers."""
        self.run_command(feedback)
        outputs = {name: path for name, path in self.outputs.items() if path}
        if not self.scores.endswith(".json"):
            return outputs
        scores = json.loads(Path(self.scores).read_text(encoding="utf-8"))
        numbers = {key.upper(): scores[key] for key in SCORES if scores.get(key) is not None}
        return {**outputs, **numbers}
