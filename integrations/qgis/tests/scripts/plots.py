"""Save a table of plots as a GeoPackage in the reference system of the scene."""

import session
from qgis.core import (
    QgsCoordinateTransformContext,
    QgsRasterLayer,
    QgsVectorFileWriter,
    QgsVectorLayer,
)

application, provider = session.start()
given = session.GIVEN
crs = QgsRasterLayer(given["scene"], "scene").crs().authid()
source = f"file://{given['csv']}?delimiter=,&xField=x&yField=y&detectTypes=yes&crs={crs}"
plots = QgsVectorLayer(source, "plots", "delimitedtext")
options = QgsVectorFileWriter.SaveVectorOptions()
QgsVectorFileWriter.writeAsVectorFormatV3(
    plots, given["out"], QgsCoordinateTransformContext(), options
)
session.tell(path=given["out"], valid=plots.isValid())
