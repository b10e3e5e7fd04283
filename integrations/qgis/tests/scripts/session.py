"""A QGIS without windows for the scripts in this folder, which run in the Python of QGIS.

Each script gets one JSON object as its argument and prints one as its last line.
"""

import json
import sys
from pathlib import Path

from qgis.core import QgsApplication, QgsProcessingContext, QgsProcessingFeedback, QgsProject

sys.path[:0] = [str(Path(QgsApplication.prefixPath() or "/usr") / "share/qgis/python/plugins")]
GIVEN = json.loads(sys.argv[1])
sys.path.insert(0, GIVEN["plugins"])


class Feedback(QgsProcessingFeedback):
    """Keeps what an algorithm says, and cancels at its first word or percent if asked to."""

    def __init__(self, cancels=False):
        super().__init__(False)
        self.cancels, self.said, self.percents = cancels, [], []
        self.progressChanged.connect(self.percents.append)

    def setProgressText(self, text):
        self._heard()

    def pushConsoleInfo(self, info):
        self.said.append(info)
        self._heard()

    def pushWarning(self, warning):
        self.said.append(warning)

    def _heard(self):
        if self.cancels:
            self.cancel()


def start():
    """Start QGIS with Processing and the plugin; the application must be kept."""
    application = QgsApplication([], False)
    application.initQgis()
    import processing.core.Processing  # where QGIS has put it on the path
    from polyad_qgis.provider import PolyadProvider

    processing.core.Processing.Processing.initialize()
    provider = PolyadProvider()
    QgsApplication.processingRegistry().addProvider(provider)
    return application, provider


def algorithm(name):
    return QgsApplication.processingRegistry().algorithmById(f"polyad:{name}")


def context():
    made = QgsProcessingContext()
    made.setProject(QgsProject.instance())
    return made


def tell(**result):
    print(json.dumps(result))
