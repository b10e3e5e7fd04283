"""What polyad raises: one sentence that says what, wanted, got and remedy."""


class PolyadError(Exception):
    """Base of every error that polyad raises on purpose."""


class PolyadWarning(UserWarning):
    """Base of every warning that polyad gives on purpose; the command line prints its sentence."""


class InputError(PolyadError, ValueError):
    """A value the caller passed cannot be used: wrong shape, range or type."""


class Diverged(PolyadError, ArithmeticError):
    """The training loss became NaN or infinite."""


class ModelFileError(PolyadError):
    """A model file is damaged, dishonest, too new, or not a model file."""


class OutputError(PolyadError):
    """A file cannot be written: no such folder, no permission, no room."""


class SceneError(PolyadError):
    """A scene or label file cannot be read."""


class SceneMismatch(SceneError, ValueError):
    """Two things that must fit do not: scene and labels, or scene and model."""


class BudgetExceeded(SceneError):
    """A file declares more bytes than the memory budget allows to be read."""


class ClusterError(PolyadError):
    """A Dask cluster cannot be reached, was lost, or its workers cannot do the work."""
