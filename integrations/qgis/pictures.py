"""Take the pictures of docs/qgis.md in a real QGIS window, with polyad's plugin enabled.

    xvfb-run -a -s "-screen 0 1280x800x24" qgis --nologo --code integrations/qgis/pictures.py

The environment says what is on them: PICTURES is the folder that they go to; SCENE, MODEL and
POINTS are files, FIELD is a field of the points. Map is run through Processing, so that the picture
shows what a user sees.
"""

import os
import tempfile
import traceback
from pathlib import Path

import processing
from qgis.core import QgsProject, QgsVectorLayer
from qgis.PyQt.QtCore import QTimer
from qgis.PyQt.QtWidgets import QDockWidget
from qgis.utils import iface

FOLDER = Path(os.environ["PICTURES"])
DOCKS = {"Layers", "ProcessingToolbox"}
PAUSE = 4000  # milliseconds between two steps, for QGIS to draw


def lay_out():
    """Show layers, map and toolbox, and nothing else."""
    window = iface.mainWindow()
    window.resize(1120, 640)
    for dock in window.findChildren(QDockWidget):
        dock.setVisible(dock.objectName() in DOCKS)
    window.findChild(QDockWidget, "ProcessingToolbox").searchBox.setText("polyad")


def run_map():
    """Open scene and points, hidden, and run Map with its result loaded."""
    scene = iface.addRasterLayer(os.environ["SCENE"], "scene")
    points = QgsVectorLayer(os.environ["POINTS"], "points", "ogr")
    QgsProject.instance().addMapLayer(points)
    for layer in (scene, points):
        node = QgsProject.instance().layerTreeRoot().findLayer(layer)
        node.setItemVisibilityChecked(False)
        node.setExpanded(False)
    out = Path(tempfile.mkdtemp()) / "map.tif"
    given = {"MODEL": os.environ["MODEL"], "SCENE": scene.id(), "OUTPUT": str(out)}
    processing.runAndLoadResults("polyad:map", given)


def zoom():
    """Show the whole map."""
    (layer,) = QgsProject.instance().mapLayersByName("Map")
    iface.setActiveLayer(layer)
    iface.zoomToActiveLayer()


def take_window():
    """Take the picture of the window, and open the dialog of Train with its choosers filled in."""
    iface.mainWindow().grab().save(str(FOLDER / "qgis-map.png"))
    names = {"SCENE": "scene", "LABELS": "points"}
    given = {k: QgsProject.instance().mapLayersByName(n)[0].id() for k, n in names.items()}
    dialog = processing.createAlgorithmDialog(
        "polyad:train", given | {"FIELD": os.environ["FIELD"]}
    )
    dialog.resize(820, 680)
    dialog.show()
    iface.polyad_dialog = dialog  # kept until its picture is taken


def take_dialog():
    """Take the picture of the dialog and end QGIS."""
    iface.polyad_dialog.grab().save(str(FOLDER / "qgis-train.png"))
    os._exit(0)


STEPS = [lay_out, run_map, zoom, take_window, take_dialog]


def go_on():
    """Do the next step; end with a traceback if it fails."""
    try:
        STEPS.pop(0)()
    except Exception:
        traceback.print_exc()
        os._exit(1)
    QTimer.singleShot(PAUSE, go_on)


QTimer.singleShot(PAUSE, go_on)
