"""Label: the labeling page on a layer's file, for as long as the algorithm runs."""

from __future__ import annotations

from qgis.core import QgsProcessingException, QgsProcessingParameterBoolean

from . import algorithm, commands


class Label(algorithm.PolyadAlgorithm):
    """``polyad label``."""

    NAME, TITLE = "label", "Label"
    HELP = (
        "Opens polyad's labeling page on a scene, in the browser and on this machine alone: click "
        "pixels of each class, and the map grows with every click. The page's address is in the "
        "log. It may begin with labels that are there already.\n\n"
        "The page is served until Cancel is pressed. Labels are kept in a file beside the scene; "
        "save them on the page as GeoJSON or GeoTIFF, and the map or the model, to use them in "
        "QGIS."
    )

    def initAlgorithm(self, configuration=None):
        """Add the choosers."""
        algorithm.add_scene(self)
        algorithm.add_labels(self)
        algorithm.add_preset(self, "best")
        self.addParameter(
            QgsProcessingParameterBoolean(
                "BROWSER", "Open the page in the browser", defaultValue=True
            )
        )

    def arguments(self, parameters, context, feedback):
        """Return the words after ``polyad``."""
        scene = algorithm.scene_of(self, parameters, context)
        labels, options = algorithm.labels_of(self, parameters, context, feedback, needed=False)
        options |= algorithm.preset_of(self, parameters, context)
        browser = self.parameterAsBool(parameters, "BROWSER", context)
        return commands.label(scene, labels, browser=browser, **options)

    def processAlgorithm(self, parameters, context, feedback):
        """Serve the page until Cancel, which is its ordinary end."""
        feedback.setProgressText("The page is served until you press Cancel.")
        try:
            self.run_command(feedback)
        except QgsProcessingException:
            if not feedback.isCanceled():
                raise
        return {}
