"""Which command Train builds for label layers that are, and are not, what their file holds."""

import session
from qgis.core import (
    QgsFeature,
    QgsField,
    QgsProcessingFeatureSourceDefinition,
    QgsProject,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QVariant

application, provider = session.start()
given = session.GIVEN


def command(labels, **more):
    """Return the words of the command, and what the labels' file holds."""
    parameters = {"SCENE": given["scene"], "LABELS": labels, "FIELD": "class", **more}
    run = session.algorithm("train").create()
    if not run.prepare(parameters | {"OUTPUT": "m.polyad"}, session.context(), session.Feedback()):
        raise SystemExit(f"not prepared: {labels}")
    written = QgsVectorLayer(run.command[-1], "written", "ogr")
    values = [str(f["class"]) for f in written.getFeatures()] if written.isValid() else []
    fields = [field.name() for field in written.fields()]
    return {"words": run.command, "values": sorted(values), "fields": fields}


def layer(name, source=given["points"]):
    made = QgsVectorLayer(source, name, "ogr")
    QgsProject.instance().addMapLayer(made)
    return made


plain, edited, filtered, selected, computed = map(
    layer, ["plain", "edited", "filtered", "selected", "computed"]
)

edited.startEditing()
first = next(edited.getFeatures())
edited.changeAttributeValue(first.id(), edited.fields().indexOf("class"), "Changed")

filtered.setSubsetString("\"class\" = 'Water'")
selected.selectByExpression("\"class\" = 'Soil'")
computed.addExpressionField('upper("class")', QgsField("loud", QVariant.String))

memory = QgsVectorLayer("Point?crs=EPSG:4326&field=class:string", "memory", "memory")
memory.startEditing()
for feature in plain.getFeatures():
    copy = QgsFeature(memory.fields())
    copy.setAttributes([feature["class"]])
    copy.setGeometry(feature.geometry())
    memory.addFeature(copy)
memory.commitChanges()
QgsProject.instance().addMapLayer(memory)

only_selected = QgsProcessingFeatureSourceDefinition(selected.id(), selectedFeaturesOnly=True)
session.tell(
    plain=command(plain.id()),
    named=command(layer("named", f"{given['points']}|layername=points").id()),
    edited=command(edited.id()),
    filtered=command(filtered.id()),
    selected=command(only_selected),
    computed=command(computed.id(), FIELD="loud"),
    memory=command(memory.id()),
)
