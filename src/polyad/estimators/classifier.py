"""`RankRClassifier`: the Rank-R network as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from polyad.errors import InputError
from polyad.estimators import defaults
from polyad.estimators.base import RankREstimator

# The generated constructor is annotated with these; typing.get_type_hints looks for them here
from polyad.estimators.parameters import (  # noqa: F401
    ActivationName,
    Array,
    Auto,
    Device,
    Samples,
    Solver,
    StartName,
)
from polyad.estimators.scaler import as_given, check_mean
from polyad.fitting.epochs import OnEpoch


class SoftmaxClassifierMixin(ClassifierMixin):
    """Predictions from logits; the class that takes it in has ``classes_`` and `_outputs`.

    Where ``multilabel_`` is true, classes do not exclude each other: each has its own probability.
    """

    classes_: Array
    multilabel_: bool = False

    if TYPE_CHECKING:

        def _outputs(self, X: Any) -> Array:
            """Return logits ``(n, C)``."""

    def decision_function(self, X: Samples) -> Array:
        """Return logits: ``(n, C)``, or for two classes ``(n,)``, positive for the second."""
        logits = self._outputs(X)
        if not self.multilabel_ and len(self.classes_) == 2:
            logits = logits[:, 1] - logits[:, 0]
        elif not self.multilabel_ and len(self.classes_) == 1:
            logits = logits[:, 0]
        return as_given(logits, X)

    def predict_proba(self, X: Samples) -> Array:
        """Return class probabilities, ``(n, C)`` in the order of ``classes_``."""
        logits = self._outputs(X)
        return as_given(expit(logits) if self.multilabel_ else softmax(logits, axis=1), X)

    def predict_log_proba(self, X: Samples) -> Array:
        """Return log-probabilities, ``(n, C)``."""
        logits = self._outputs(X)
        return as_given(log_expit(logits) if self.multilabel_ else log_softmax(logits, axis=1), X)

    def predict(self, X: Samples) -> Array:
        """Return each sample's most probable class, ``(n,)``, or all its labels, ``(n, C)``."""
        logits = self._outputs(X)
        if self.multilabel_:
            return as_given((logits > 0).astype(np.int64), X)
        return as_given(self.classes_[logits.argmax(axis=1)], X)


@dataclass(repr=False, eq=False)
class RankRClassifier(SoftmaxClassifierMixin, RankREstimator):
    """Classify tensors with a Rank-R network.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Rank R of each hidden unit's weight tensor. ``"auto"`` holds out samples (a quarter, or each
        half in turn of fewer than 200), tries ranks 1 and 4, and takes the higher one only if it is
        better by more than a standard error; rank 1 for order-1 samples and for fewer than 200.
        It also fits logistic regression, or ridge for numbers, and joins it to the network with the
        share that suits the samples held out. That takes up to three times as long as a given rank.
        With a given ``standardize``, another start or another solver it is 1.
    hidden : int, default=75
        Number of hidden units Q. A linear part adds its own: ``network_.hidden.out_features``.
    solver : {"joint", "alternating"}, default="joint"
        ``"joint"`` steps all factors at once and is fast; ``"alternating"`` is Algorithm 1 of the
        paper, one mode at a time.
    activation : {"auto", "tanh", "sigmoid", "relu", "identity"}, default="auto"
        ``"auto"`` is relu, and tanh, as in the paper, where ``standardize`` is given.
    start : {"data", "unit-variance", "xavier"}, default="data"
        Where the factors start: drawn with the covariance of the data's modes, with unit
        variance, or as in the paper. With ``"data"`` the joint solver also works in the principal
        axes of the standardized mode, and is far more accurate with few samples.
    hidden_bias : bool, default=True
    epochs : int, default=200
        At most this many passes over the samples.
    learning_rate : float or "auto", default="auto"
        Of Adam. ``"auto"`` begins at 0.02, lower for more than 5,000 samples, and falls to zero
        along a cosine, in fewer passes where there are more than 1024 samples. With a given
        ``standardize`` it begins at 0.06, settles at 0.02 within some thirty steps and stays.
        0.0005 for the alternating solver.
    weight_decay : float or "auto", default="auto"
        Of Adam, decoupled from the loss. ``"auto"`` is zero, with a penalty in the loss instead.
        With a given ``standardize`` it is 0.1, and 0 for the alternating solver.
    penalty : float or "auto", default="auto"
        Half of it, divided by the number of samples, times the sum of squared weights is added to
        the mean loss, as ``alpha`` of scikit-learn's MLPs. ``"auto"`` is 1 for classes, and more
        where samples are many and classes differ along lines; for numbers it follows the ridge
        regression with the least error on samples left out. 0 where ``weight_decay`` is given.
    batch_size : int, None or "auto", default="auto"
        None takes all samples at once. ``"auto"``: all up to 1024 samples, else 256 (joint); 65
        (alternating).
    inner_steps : int, default=10
        Gradient steps for each block and batch of the alternating solver.
    standardize : int, "auto" or None, default="auto"
        Mode whose entries (bands) are standardized before the network; None leaves X as it is.
        ``"auto"`` chooses the mode, or one scale for all entries, and how much its principal axes
        are whitened, by ridge regressions on the samples; a window around a pixel, such as
        ``(5, 5, bands)``, always has its bands standardized. With another start or solver it is -1.
    early_stopping : bool, default=False
        Hold out ``validation_fraction`` of the samples, stop when their loss no longer falls, and
        keep the best weights.
    validation_fraction : float, default=0.1
    patience : int or None, default=10
        Epochs without progress before stopping; None runs all epochs. A learning rate that falls
        to zero is stopped early only by samples held out.
    tol : float, default=1e-4
        What counts as progress of the watched loss.
    device : str or torch.device, default="auto"
        ``"auto"`` takes a CUDA device when there is one.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.
    warm_start : bool, default=False
        Whether a second `fit` goes on from the network of the first, with its standardization,
        instead of a new start.
    class_weight : dict, "balanced" or None, default=None

    Attributes
    ----------
    classes_ : ndarray, ``(C,)``
        Of labels that do not exclude each other: their columns, from 0 on.
    multilabel_ : bool
        Whether it was fitted on such labels.
    network_ : RankRNet
    scaler_ : ModeStandardScaler or None
    settings_ : dict
        What every "auto" became: ``rank``, ``linear`` (share of the linear part, 0 to 1),
        ``activation``, ``standardize`` (a mode, None, or "common" for one scale), ``whiten`` (0 to
        1), ``learning_rate``, ``schedule`` ("cosine", "head start" or "constant"),
        ``weight_decay``, ``penalty``, ``batch_size`` and ``epochs``. It is not kept in model files.
    history_ : History
        Loss, accuracy and seconds of each epoch.
    n_iter_ : int
    sample_shape_ : tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 5, 20))  # 60 samples, tensors of order 3
    >>> y = np.where(X[:, 2, 2, :5].sum(axis=1) > 0, "crop", "soil")
    >>> model = RankRClassifier(rank=2, hidden=10, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (60, 2)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.settings_["standardize"], model.settings_["schedule"]
    (-1, 'cosine')
    """

    class_weight: Mapping[Any, float] | Literal["balanced"] | None = field(
        default=None, kw_only=True
    )

    @property
    def _loss(self) -> str:
        return "binary" if self.multilabel_ else "log"

    def fit(
        self,
        X: Samples,
        y: Samples,
        sample_weight: npt.ArrayLike | None = None,
        *,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Learn from samples and their classes.

        Parameters
        ----------
        X : array or Tensor, ``(n, I_1, ..., I_D)``
            A 2-D X is a set of order-1 tensors.
        y : array, ``(n,)`` or ``(n, C)``
            Classes: numbers or strings. With C columns of 0 and 1, labels of which a sample may
            have several or none, each learned by itself.
        sample_weight : array, ``(n,)``, optional
        on_epoch : callable, optional
            Called with the epoch's number and the network after each epoch.

        Returns
        -------
        self
        """
        with self._all_or_nothing():
            if not self._continues:
                self.__dict__.pop("classes_", None)
                self.multilabel_ = _is_multilabel(y)
            return self._fit(X, y, sample_weight, on_epoch)

    def partial_fit(
        self,
        X: Samples,
        y: Samples,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Take one more epoch on a batch of samples.

        Parameters
        ----------
        X : array or Tensor, ``(n, I_1, ..., I_D)``
        y : array, ``(n,)`` or ``(n, C)``
        classes : array, optional
            All classes that will ever come; needed in the first call, unless y has a column for
            each label. Standardization is learned
            from the first call too.
        sample_weight : array, ``(n,)``, optional

        Returns
        -------
        self
        """
        first = not hasattr(self, "network_")
        multilabel = _is_multilabel(y) if first else self.multilabel_
        if first and classes is None and not multilabel:
            raise InputError("classes must be passed on the first call to partial_fit")
        given = None if classes is None else np.unique(np.asarray(classes))
        if given is not None and not first and {*given} != {*self.classes_}:
            raise InputError(f"classes must stay {self.classes_!r}, got {given!r}")
        with self._all_or_nothing():
            if first:
                self.multilabel_ = multilabel
                if classes is not None:
                    self.classes_ = np.unique(np.asarray(classes))
            return self._partial_fit(X, y, sample_weight, first)

    def _encode(self, y: Array, weight: Array) -> tuple[Array, Array]:
        with warnings.catch_warnings():  # of many classes with few labels: they are classes
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(y)
        if self.multilabel_:
            return self._encode_labels(y), weight
        if not hasattr(self, "classes_"):
            self.classes_ = np.unique(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown) and self._continues:
            raise InputError(
                f"a warm start goes on with the classes {self.classes_!r}, got {unknown!r} too; "
                "fit with warm_start=False"
            )
        if len(unknown):
            raise InputError(f"y has classes {unknown!r} that were not among {self.classes_!r}")
        if self.class_weight is not None:
            weight = weight * compute_sample_weight(self.class_weight, y)
            if weight.min() < 0:
                raise InputError(f"class_weight must not be negative, got {self.class_weight!r}")
            if not weight.any():
                raise InputError("class_weight and sample_weight leave no sample any weight")
            check_mean(weight, "class_weight times sample_weight")
        return (y[:, None] == self.classes_).astype(np.float64), weight

    def _encode_labels(self, y: Array) -> Array:
        columns = y.reshape(len(y), -1).astype(np.float64)
        if not np.isin(columns, (0.0, 1.0)).all():
            raise InputError(
                "y with several columns must hold 0 and 1, one column for each label; of several "
                "classes for each sample, fit one model for each"
            )
        if not hasattr(self, "classes_"):
            self.classes_ = np.arange(columns.shape[1])
        if not np.array_equal(self.classes_, np.arange(columns.shape[1])):
            raise InputError(
                f"y must have one column for each of the labels {self.classes_!r}, got "
                f"{columns.shape[1]} columns, which are labels 0 to {columns.shape[1] - 1}"
            )
        if self.class_weight is not None:
            raise InputError(
                "class_weight is for classes that exclude each other, y has several columns; use "
                "sample_weight"
            )
        return columns

    def __sklearn_tags__(self) -> Any:
        """Say that labels need not exclude each other."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _validation_strata(self, y: Array) -> Array | None:
        if self.multilabel_:
            return None
        counts = np.unique(y, return_counts=True)[1]
        held = self.validation_fraction * len(y)
        return y if counts.min() >= 2 and held >= len(counts) else None

    def _auto_penalty(self, choice: defaults.Choice, order: int) -> float:
        return defaults.class_penalty(choice.n, choice.linear_penalty(order))


def _is_multilabel(y: Any) -> bool:
    """Whether y has more than one column; what they hold is checked later."""
    shape = tuple(y.shape if hasattr(y, "shape") else np.asarray(y).shape)
    return len(shape) == 2 and shape[1] > 1
