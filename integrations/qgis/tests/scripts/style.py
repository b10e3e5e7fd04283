"""Load a map as Processing does and let the plugin apply the style beside it."""

import session
from qgis.core import QgsPalettedRasterRenderer, QgsRasterLayer

application, provider = session.start()
from polyad_qgis.algorithms import StyleBeside  # noqa: E402 - on the path since start()

given = session.GIVEN
layer = QgsRasterLayer(given["map"], "styled", "gdal")
classes = [c for c in layer.renderer().classes() if c.value == 1]
classes[0].label = "from the style"
layer.setRenderer(QgsPalettedRasterRenderer(layer.dataProvider(), 1, classes))
layer.saveNamedStyle(given["map"].replace(".tif", ".qml"))
again = QgsRasterLayer(given["map"], "again", "gdal", QgsRasterLayer.LayerOptions(False))
before = [c.label for c in again.renderer().classes()]
StyleBeside.instance().postProcessLayer(again, session.context(), session.Feedback())
session.tell(before=before, after=[c.label for c in again.renderer().classes()])
