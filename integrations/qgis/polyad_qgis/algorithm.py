"""An algorithm of the toolbox, from the table of its dialog: parameters, the run, its errors."""

from __future__ import annotations

import math
import os
import shlex

from processing.core.ProcessingConfig import ProcessingConfig
from qgis.core import (
    QgsFields,
    QgsProcessing,
    QgsProcessingAlgorithm,
    QgsProcessingException,
    QgsProcessingParameterBoolean,
    QgsProcessingParameterDefinition,
    QgsProcessingParameterEnum,
    QgsProcessingParameterFeatureSource,
    QgsProcessingParameterField,
    QgsProcessingParameterFile,
    QgsProcessingParameterFileDestination,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRange,
    QgsProcessingParameterRasterDestination,
    QgsProcessingParameterRasterLayer,
    QgsProcessingParameterString,
    QgsProcessingParameterVectorDestination,
)

from . import commands, running
from .dialogs import DIALOGS
from .sources import raster_file

# Enumerations are written with their full scope: Qt 6 and QGIS 4 know no other names
INTEGER = QgsProcessingParameterNumber.Type.Integer
DOUBLE = QgsProcessingParameterNumber.Type.Double
NUMERIC = QgsProcessingParameterField.DataType.Numeric
ANY_FIELD = QgsProcessingParameterField.DataType.Any
ANY_VECTOR = QgsProcessing.SourceType.TypeVectorAnyGeometry
ADVANCED = QgsProcessingParameterDefinition.Flag.FlagAdvanced
FROM_FILE = QgsFields.FieldOrigin.OriginProvider
VECTOR_FILES = ["gpkg", "shp", "fgb", "geojson", "json", "kml"]  # as polyad reads them


class PolyadAlgorithm(QgsProcessingAlgorithm):
    """One dialog: its command is built in QGIS's main thread and run beside it."""

    def __init__(self, name):
        super().__init__()
        self.key, self.dialog = name, DIALOGS[name]
        self.command: list[str] = []
        self.outputs: dict[str, str] = {}

    def createInstance(self):
        """Return a fresh algorithm, one for each run."""
        return type(self)(self.key)

    def name(self):
        """Return the second half of the id."""
        return self.key

    def displayName(self):
        """Return the name in the toolbox."""
        return self.dialog.title

    def shortHelpString(self):
        """Return the text beside the dialog."""
        return self.dialog.help

    def initAlgorithm(self, configuration=None):
        """Add the rows of the table."""
        flags = [option.flag for option in self.dialog.options]
        for option in self.dialog.options:
            make, _ = KINDS[option.kind]
            if make is None:
                continue
            alone = flags.count(option.flag) == 1  # of alternatives, none is needed by itself
            parameter = make(option._replace(needed=option.needed and alone))
            if option.advanced:
                parameter.setFlags(parameter.flags() | ADVANCED)
            self.addParameter(parameter)

    def prepareAlgorithm(self, parameters, context, feedback):
        """Build the command; layers may be read, since this is their thread."""
        try:
            started = commands.program(
                ProcessingConfig.getSetting("POLYAD_COMMAND"), dict(os.environ)
            )
            given = self.given(parameters, context, feedback)
            self.command = started + commands.words(self.key, given)
        except (FileNotFoundError, ValueError) as error:
            raise QgsProcessingException(str(error)) from error
        return True

    def given(self, parameters, context, feedback):
        """Return what was chosen, by name of the row."""
        chosen = {}
        for option in self.dialog.options:
            _, read = KINDS[option.kind]
            if read is not None and (not option.parent or chosen.get(option.parent)):
                chosen[option.name] = read(self, option, parameters, context)
            if option.kind == "vector" and chosen[option.name]:
                layers = [o for o in self.dialog.options if o.parent == option.name]
                chosen |= vector_file(self, option, layers, parameters, context, feedback)
            if option.kind.endswith(" out") and chosen[option.name]:
                self.outputs[option.name] = chosen[option.name]
        return chosen

    def processAlgorithm(self, parameters, context, feedback):
        """Run the command and return its outputs."""
        self.run_command(feedback)
        return dict(self.outputs)

    def run_command(self, feedback):
        """Run the command; its error, or Cancel, becomes the algorithm's error."""
        feedback.pushCommandInfo(shlex.join(self.command))
        self.shown = ""
        ended = running.run(
            self.command,
            commands.own_environment(os.environ),
            lambda line: self.show(line, feedback),
            feedback.isCanceled,
        )
        if ended.code != 0:
            raise QgsProcessingException(running.error_sentence(ended))
        if feedback.isCanceled():
            feedback.pushWarning("polyad had finished before it could be canceled")
        feedback.setProgress(100)

    def show(self, line, feedback):
        """Show a line of the command in the dialog."""
        bar = running.progress(line.text)
        warning = running.warning(line.text)
        if bar is not None:
            what, percent = bar
            if what != self.shown:
                feedback.setProgressText(what)
                self.shown = what
            feedback.setProgress(percent)
        elif warning is not None:
            feedback.pushWarning(warning)
        elif line.stream == "out":
            feedback.pushConsoleInfo(line.text)  # in letters of one width: there are tables
        else:
            feedback.pushDebugInfo(line.text)


# --- layers --------------------------------------------------------------------------------------


def vector_file(algorithm, option, layers, parameters, context, feedback):
    """Return the file of a vector layer, with the name of its layer where there is a row for it."""
    layer = algorithm.parameterAsVectorLayer(parameters, option.name, context)
    # What is not in the file must be saved first, to a temporary GeoPackage: QGIS sees to memory
    # layers, other providers, filters and selections, and to the rest if no ending will do.
    fields = None if layer is None else layer.fields()
    origins = {fields.fieldOrigin(index) for index in range(fields.count())} if fields else set()
    as_it_is = layer is None or (not layer.isModified() and origins <= {FROM_FILE})
    endings = VECTOR_FILES if as_it_is else []
    given = (parameters, option.name, context, endings, "gpkg", feedback)
    name = next((row.name for row in layers if row.kind == "layer"), None)
    if name is None:
        return {option.name: algorithm.parameterAsCompatibleSourceLayerPath(*given)}
    path, layer_name = algorithm.parameterAsCompatibleSourceLayerPathAndLayerName(*given)
    return {option.name: path, name: layer_name or None}


def _raster(algorithm, option, parameters, context):
    layer = algorithm.parameterAsRasterLayer(parameters, option.name, context)
    return None if layer is None else raster_file(layer.providerType(), layer.source())


def _range(algorithm, option, parameters, context):
    ends = tuple(algorithm.parameterAsRange(parameters, option.name, context))
    unset = parameters.get(option.name) is None or all(map(math.isnan, ends))
    if not unset and any(map(math.isnan, ends)):
        raise ValueError(f"{option.text}: expected two numbers, got one; give both or none")
    return None if unset else ends


# --- kinds of rows -------------------------------------------------------------------------------


def _number(kind):
    def make(option):
        least = {"minValue": option.limits[0]} if option.limits else {}
        return QgsProcessingParameterNumber(option.name, option.text, kind, optional=True, **least)

    def read(algorithm, option, parameters, context):
        if parameters.get(option.name) is None:
            return None
        as_number = algorithm.parameterAsInt if kind == INTEGER else algorithm.parameterAsDouble
        return as_number(parameters, option.name, context)

    return make, read


def _field(kind, several):
    def make(option):
        return QgsProcessingParameterField(
            option.name, option.text, option.default, option.parent, kind, several, True
        )

    def read(algorithm, option, parameters, context):
        return algorithm.parameterAsFields(parameters, option.name, context) or None

    return make, read


def _output(kind, read):
    """Return how an output is chosen, a file unless ``kind`` says otherwise, and read."""

    def make(option):
        words = {"optional": not option.needed, "createByDefault": option.needed}
        if kind is QgsProcessingParameterFileDestination:
            words["fileFilter"] = option.limits[0]
        return kind(option.name, option.text, **words)

    def read_path(algorithm, option, parameters, context):
        return read(algorithm, parameters, option.name, context) or None

    return make, read_path


# kind of a row -> how its parameter is made, and how what was chosen is read
KINDS = {
    "raster": (
        lambda o: QgsProcessingParameterRasterLayer(o.name, o.text, optional=not o.needed),
        _raster,
    ),
    "vector": (
        lambda o: QgsProcessingParameterFeatureSource(
            o.name, o.text, [ANY_VECTOR], optional=not o.needed
        ),
        lambda a, o, parameters, context: a.parameterAsSource(parameters, o.name, context),
    ),
    "layer": (None, None),  # comes with its vector layer
    "field": _field(ANY_FIELD, several=False),
    "numbers": _field(NUMERIC, several=True),
    "file": (
        lambda o: QgsProcessingParameterFile(
            o.name, o.text, extension=o.limits[0] if o.limits else "", optional=not o.needed
        ),
        lambda a, o, parameters, context: a.parameterAsFile(parameters, o.name, context) or None,
    ),
    "choice": (
        lambda o: QgsProcessingParameterEnum(
            o.name, o.text, list(o.limits), defaultValue=o.default, usesStaticStrings=True
        ),
        lambda a, o, parameters, context: a.parameterAsEnumString(parameters, o.name, context),
    ),
    "flag": (
        lambda o: QgsProcessingParameterBoolean(o.name, o.text, defaultValue=bool(o.default)),
        lambda a, o, parameters, context: a.parameterAsBool(parameters, o.name, context),
    ),
    "unless": (
        lambda o: QgsProcessingParameterBoolean(o.name, o.text, defaultValue=o.default),
        lambda a, o, parameters, context: not a.parameterAsBool(parameters, o.name, context),
    ),
    "text": (
        lambda o: QgsProcessingParameterString(o.name, o.text, optional=True),
        lambda a, o, parameters, context: a.parameterAsString(parameters, o.name, context) or None,
    ),
    "integer": _number(INTEGER),
    "number": _number(DOUBLE),
    "range": (
        lambda o: QgsProcessingParameterRange(o.name, o.text, DOUBLE, optional=True),
        _range,
    ),
    "file out": _output(
        QgsProcessingParameterFileDestination, QgsProcessingAlgorithm.parameterAsFileOutput
    ),
    "raster out": _output(
        QgsProcessingParameterRasterDestination, QgsProcessingAlgorithm.parameterAsOutputLayer
    ),
    "vector out": _output(
        QgsProcessingParameterVectorDestination, QgsProcessingAlgorithm.parameterAsOutputLayer
    ),
}
