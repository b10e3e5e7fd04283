"""Run Map as the toolbox does, load the result with its style, and draw it into a PNG."""

import session
from qgis.core import (
    QgsMapRendererSequentialJob,
    QgsMapSettings,
    QgsProcessingContext,
    QgsProject,
    QgsRasterLayer,
)
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor

application, provider = session.start()
given = session.GIVEN
context, feedback = session.context(), session.Feedback()
details = QgsProcessingContext.LayerDetails("Map", QgsProject.instance(), "OUTPUT")
context.addLayerToLoadOnCompletion(given["map"], details)
parameters = {"MODEL": given["model"], "SCENE": given["scene"], "OUTPUT": given["map"]}
outputs, done = session.algorithm("map").run(parameters, context, feedback)

# As Processing loads results: without the style beside them, and then what the plugin does
options = QgsRasterLayer.LayerOptions(False)
layer = QgsRasterLayer(given["map"], "Map", "gdal", options)
QgsProject.instance().addMapLayer(layer)
details = context.layerToLoadOnCompletionDetails(given["map"])
details.postProcessor().postProcessLayer(layer, context, feedback)

settings = QgsMapSettings()
settings.setLayers([layer])
settings.setDestinationCrs(layer.crs())
settings.setExtent(layer.extent())
settings.setOutputSize(QSize(layer.width() * 4, layer.height() * 4))
settings.setBackgroundColor(QColor("white"))
job = QgsMapRendererSequentialJob(settings)
job.start()
job.waitForFinished()
job.renderedImage().save(given["png"])

classes = layer.renderer().classes() if layer.renderer().type() == "paletted" else []
session.tell(
    done=done,
    valid=layer.isValid(),
    crs=layer.crs().authid(),
    renderer=layer.renderer().type(),
    classes=[[c.value, c.label, c.color.name()] for c in classes],
    percents=feedback.percents,
    said=feedback.said,
)
