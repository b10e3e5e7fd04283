"""Fill in the field reference of a sample with the class of the map, in an edit session."""

import session
from qgis.core import QgsVectorLayer

application, provider = session.start()
layer = QgsVectorLayer(session.GIVEN["points"], "sample", "ogr")
layer.startEditing()
column = layer.fields().indexOf("reference")
for feature in layer.getFeatures():
    layer.changeAttributeValue(feature.id(), column, str(feature["map_class"]))
saved = layer.commitChanges()
session.tell(checked=layer.featureCount() if saved else 0, crs=layer.crs().isValid())
