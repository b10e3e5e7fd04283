"""What the algorithms share: choosers, the command's run, its errors as the algorithm's error."""

from __future__ import annotations

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
    QgsProcessingParameterRasterLayer,
)

from . import commands, running
from .sources import raster_file

VECTOR_FILES = ("gpkg", "shp", "fgb", "geojson", "json", "kml")  # as polyad reads them


class PolyadAlgorithm(QgsProcessingAlgorithm):
    """Base of the algorithms: `arguments` in QGIS's main thread, then the command beside it."""

    NAME = TITLE = HELP = ""

    def __init__(self):
        super().__init__()
        self.command: list[str] = []

    def createInstance(self):
        """Return a fresh algorithm, one for each run."""
        return type(self)()

    def name(self):
        """Return the second half of the id."""
        return self.NAME

    def displayName(self):
        """Return the name in the toolbox."""
        return self.TITLE

    def shortHelpString(self):
        """Return the text beside the dialog."""
        return self.HELP

    def arguments(self, parameters, context, feedback):
        """Return the words after ``polyad``; layers may be read, since this is their thread."""
        raise NotImplementedError

    def prepareAlgorithm(self, parameters, context, feedback):
        """Build the command."""
        try:
            started = commands.program(
                ProcessingConfig.getSetting("POLYAD_COMMAND"), dict(os.environ)
            )
            self.command = started + self.arguments(parameters, context, feedback)
        except (FileNotFoundError, ValueError) as error:
            raise QgsProcessingException(str(error)) from error
        return True

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
        if ended.canceled:
            raise QgsProcessingException("canceled; nothing was written")
        if ended.code != 0:
            raise QgsProcessingException(running.error_sentence(ended.code, ended.errors))
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


# --- the scene -----------------------------------------------------------------------------------


def add_scene(algorithm):
    """Add the chooser of the scene: a raster layer, or a file that QGIS shows in pieces or not."""
    algorithm.addParameter(QgsProcessingParameterRasterLayer("SCENE", "Scene", optional=True))
    file = QgsProcessingParameterFile(
        "SCENE_FILE", "Scene file, instead of a layer (PRISMA, EMIT, EnMAP, MATLAB)", optional=True
    )
    add_advanced(algorithm, file)


def scene_of(algorithm, parameters, context):
    """Return the scene's file."""
    file = algorithm.parameterAsFile(parameters, "SCENE_FILE", context)
    layer = algorithm.parameterAsRasterLayer(parameters, "SCENE", context)
    if (layer is not None) == bool(file):
        got = "both" if file else "neither"
        raise ValueError(f"wanted the scene as a raster layer or as a file, got {got}; choose one")
    return file or raster_file(layer.providerType(), layer.source())


# --- labels --------------------------------------------------------------------------------------


def add_labels(algorithm):
    """Add the choosers of labels: a vector layer and its field, or a raster."""
    algorithm.addParameter(
        QgsProcessingParameterFeatureSource(
            "LABELS", "Labels: vector layer", [QgsProcessing.TypeVectorAnyGeometry], optional=True
        )
    )
    algorithm.addParameter(
        QgsProcessingParameterField(
            "FIELD", "Field with the classes", parentLayerParameterName="LABELS", optional=True
        )
    )
    algorithm.addParameter(
        QgsProcessingParameterRasterLayer(
            "LABEL_RASTER", "Labels: raster, instead of a vector layer", optional=True
        )
    )
    add_advanced(
        algorithm,
        QgsProcessingParameterBoolean(
            "ALL_TOUCHED", "Label every pixel that a polygon touches", defaultValue=False
        ),
    )


def labels_of(algorithm, parameters, context, feedback, needed=True):
    """Return the labels' files, and the options that say how to read them."""
    vector = algorithm.parameterAsSource(parameters, "LABELS", context)
    raster = algorithm.parameterAsRasterLayer(parameters, "LABEL_RASTER", context)
    if vector is None and raster is None and not needed:
        return [], {}
    if (vector is None) == (raster is None):
        got = "neither" if vector is None else "both"
        raise ValueError(
            f"wanted labels as a vector layer or as a raster layer, got {got}; choose one"
        )
    if raster is not None:
        return [raster_file(raster.providerType(), raster.source())], {}
    layer = algorithm.parameterAsVectorLayer(parameters, "LABELS", context)
    # What is not in the file must be saved first, to a temporary GeoPackage: QGIS sees to memory
    # layers, other providers, filters and selections, and to the rest if no ending will do.
    as_it_is = layer is None or not _differs_from_its_file(layer)
    path, name = algorithm.parameterAsCompatibleSourceLayerPathAndLayerName(
        parameters, "LABELS", context, list(VECTOR_FILES) if as_it_is else [], "gpkg", feedback
    )
    options = {
        "layer": name or None,
        "field": algorithm.parameterAsString(parameters, "FIELD", context) or None,
        "all_touched": algorithm.parameterAsBool(parameters, "ALL_TOUCHED", context),
    }
    return [path], options


def _differs_from_its_file(layer):
    """Whether a layer has unsaved edits, or fields that QGIS joins or computes."""
    fields = layer.fields()
    origins = {fields.fieldOrigin(index) for index in range(fields.count())}
    return layer.isModified() or not origins <= {QgsFields.OriginProvider}


# --- presets and the rest ------------------------------------------------------------------------


def add_preset(algorithm, default):
    """Add the choosers of preset and goal."""
    algorithm.addParameter(
        QgsProcessingParameterEnum(
            "PRESET", "Preset", commands.PRESETS, defaultValue=default, usesStaticStrings=True
        )
    )
    algorithm.addParameter(
        QgsProcessingParameterEnum(
            "GOAL", "What the preset best is to be best at", commands.GOALS,
            defaultValue=commands.GOALS[0], usesStaticStrings=True,
        )
    )  # fmt: skip


def preset_of(algorithm, parameters, context):
    """Return preset and goal as options."""
    return {
        name.lower(): algorithm.parameterAsEnumString(parameters, name, context)
        for name in ("PRESET", "GOAL")
    }


def add_model(algorithm):
    """Add the chooser of a model file."""
    algorithm.addParameter(QgsProcessingParameterFile("MODEL", "Model", extension="polyad"))


def add_force(algorithm):
    """Add whether an output may replace a file that polyad did not write."""
    add_advanced(
        algorithm,
        QgsProcessingParameterBoolean(
            "FORCE", "Replace outputs that are there and are something else", defaultValue=False
        ),
    )


def add_advanced(algorithm, parameter):
    """Add a parameter that the dialog shows on demand."""
    parameter.setFlags(parameter.flags() | QgsProcessingParameterDefinition.FlagAdvanced)
    algorithm.addParameter(parameter)


def output_of(algorithm, parameters, name, context):
    """Return the path of an output; None for one that is not wanted."""
    return algorithm.parameterAsFileOutput(parameters, name, context) or None
