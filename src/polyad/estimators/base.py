"""How a Rank-R network is learned behind scikit-learn's contract.

`fit` checks and encodes, standardizes, builds a network, and hands it to a solver; prediction
standardizes in the same way and runs the network batch by batch. The two estimators differ only
in how they encode ``y`` and read the network's outputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from polyad.core.network import RankRNet, join_networks, network_sizes
from polyad.errors import InputError
from polyad.estimators import defaults, parameters, scaler
from polyad.estimators.parameters import ActivationName, Array, Auto, Device, Solver, StartName
from polyad.fitting.alternating import Steps, fit_alternating
from polyad.fitting.epochs import EpochLoop, History, OnEpoch, batch_slices
from polyad.fitting.joint import AdamState, JointSettings, fit_joint
from polyad.fitting.linear import as_network, fit_linear
from polyad.fitting.modes import PrincipalAxes, start_from_data
from polyad.fitting.problem import Problem
from polyad.threads import limit_threads, threads_for

HEAD_START = 2.0  # of a joint fit's "auto" learning rate: it begins three times as large
CHUNK_BYTES = 64 * 2**20  # of input standardized at a time in prediction
NETWORK = "network_arrays"  # under which a pickle has the network

Settings = dict[str, Any]
Fitted = tuple[RankRNet, History, AdamState | None]


class _Learned:
    """What a fit leaves in an estimator."""

    sample_shape_: tuple[int, ...]
    network_: RankRNet
    scaler_: scaler.ModeStandardScaler | None
    settings_: Settings
    history_: History
    n_iter_: int
    _random: torch.Generator
    _adam_state: AdamState | None  # from which `partial_fit` goes on
    _copies = 1.0  # of each sample, on average, that its weight stands for


@dataclass(repr=False, eq=False)
class RankREstimator(_Learned, BaseEstimator):
    """What `RankRClassifier` and `RankRRegressor` share; not to be used by itself."""

    rank: int | Auto = "auto"
    hidden: int = 75
    _: KW_ONLY
    solver: Solver = "joint"
    activation: ActivationName | Auto = "auto"
    start: StartName = "data"
    hidden_bias: bool = True
    epochs: int = 200
    learning_rate: float | Auto = "auto"
    batch_size: int | Auto | None = "auto"
    inner_steps: int = 10
    weight_decay: float | Auto = "auto"
    penalty: float | Auto = "auto"
    standardize: int | Auto | None = "auto"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int | None = 10
    tol: float = 1e-4
    device: Device = "auto"
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    warm_start: bool = False

    @classmethod
    def paper(cls, rank: int = 1, **overrides: Any) -> Self:
        """Return an estimator with the settings of the paper's published code.

        Alternating solver (Algorithm 1), tanh, Xavier start, Adam at 5e-4 made anew for every
        block and batch of 65, 10 inner steps, 50 epochs, no hidden bias, bands standardized.

        Parameters
        ----------
        rank : int, default=1
        **overrides
            Any parameter of the estimator, such as ``epochs`` or ``random_state``.
        """
        return cls(rank=rank, **(parameters.PAPER | overrides))

    # -- what the two estimators fill in ------------------------------------------------------

    @property
    def _loss(self) -> str:
        raise NotImplementedError  # pragma: no cover

    def _encode(self, y: Array, weight: Array) -> tuple[Array, Array]:
        """Learn how to encode ``y``; return targets ``(n, C)`` and sample weights ``(n,)``."""
        raise NotImplementedError  # pragma: no cover

    def _validation_strata(self, y: Array) -> Array | None:
        """Return what the validation split is stratified by."""
        raise NotImplementedError  # pragma: no cover

    def _auto_penalty(self, choice: defaults.Choice, order: int) -> float:
        """Return the penalty on squared weights, times the number of samples."""
        raise NotImplementedError  # pragma: no cover

    # -- fitting ------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any, on_epoch: OnEpoch | None) -> Self:
        parameters.check_parameters(self)
        X, y, weight = self._check_data(X, y, sample_weight, reset=True)
        before = self.network_ if self._continues else None
        if before is not None:
            self._check_same_task(before, X.shape[1:])
        self._random = self._generator()
        target, weight = self._encode(y, weight)
        with limit_threads(self._threads(X)):
            # a network that is trained further keeps its coordinates
            coordinates = {} if before is None else self._coordinates()
            self.settings_ = self._choose_settings(X, target, weight) | coordinates
            if before is None:
                self.scaler_ = scaler.fit_scaler(self.settings_["standardize"], X, weight)
            problem = self._problem(X, target, weight, before)
            self.network_, self.history_, self._adam_state = self._fit_network(
                problem, y, before, on_epoch
            )
        self.n_iter_ = len(self.history_)
        return self

    def _fit_network(
        self, problem: Problem, y: Array, network: RankRNet | None, on_epoch: OnEpoch | None
    ) -> Fitted:
        """Choose the structure, and fit a new network, or train the given one further."""
        axes, samples = self._principal_axes(problem), problem
        if self._chooses_rank and len(problem) <= defaults.FULL_BATCH_UP_TO:
            samples = problem.merged()
        if axes is not None:
            problem = axes.project(problem)
        structure = self._choose_structure(samples, axes)
        self.settings_ |= {"rank": structure.rank, "linear": structure.linear}
        if network is None:
            network = self._new_network(problem, structure.rank)
        elif axes is not None:
            network, axes = axes.enter(network)
        problem, validation = self._split(problem, y)
        if axes is not None and on_epoch is not None:
            on_epoch = _expanding(on_epoch, axes)
        fitted, history, state = self._run_solver(
            network, problem, self.settings_, validation=validation, on_epoch=on_epoch
        )
        if axes is not None:
            fitted, state = axes.expand(fitted), None  # the state belongs to other coordinates
        share = structure.linear
        linear = fit_linear(self._with_copies(samples), self._random) if share else None
        if linear is not None:
            straight = as_network(linear, fitted, samples.x)
            fitted, state = join_networks([fitted, straight], [1 - share, share]), None
        return fitted, history, state

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, first: bool) -> Self:
        """Take one more epoch on the samples given; the scaler stays as first fitted."""
        parameters.check_parameters(self)
        X, y, weight = self._check_data(X, y, sample_weight, reset=first)
        if first:
            self.history_ = History()
        if not hasattr(self, "_random"):  # the first call, or the first since it was unpickled
            self._random, self._adam_state = self._generator(), None
        with limit_threads(self._threads(X)):
            # single epochs have no schedule, and a first batch may not be like all
            settings = self._fixed_settings(len(X)) | {"schedule": "constant", "epochs": 1}
            if first:
                self.settings_ = settings
                self.scaler_ = scaler.fit_scaler(settings["standardize"], X, weight)
            fitted = None if first else self.network_
            problem = self._problem(X, *self._encode(y, weight), fitted)
            if first:
                self.network_ = self._new_network(problem, self.settings_["rank"])
            self.network_, history, self._adam_state = self._run_solver(
                self.network_, problem, settings, state=self._adam_state
            )
        for name, values in vars(self.history_).items():
            values.extend(getattr(history, name))
        self.n_iter_ = len(self.history_)
        return self

    def _choose_structure(self, samples: Problem, axes: PrincipalAxes | None) -> defaults.Structure:
        """Return rank and linear share: as given, or as samples held out in turn prefer."""
        given = defaults.Structure(self.settings_["rank"], 0.0)
        if not self._chooses_rank:
            return given
        problem = samples if axes is None else axes.project(samples)
        linear: list[Tensor] = []
        outputs: dict[int, list[Tensor]] = {}
        folds = defaults.held_out_folds(problem, self._count(problem), self._random)
        for rest, held in folds:
            straight = fit_linear(self._with_copies(samples.take(rest)), self._random)
            if straight is None:
                return given
            linear.append(straight(samples.x[held]))
            some = problem.take(rest)
            for rank in defaults.ranks_for(some.x.shape[1:], self._count(some)):
                network = self._new_network(some, rank)
                fitted, *_ = self._run_solver(network, some, self.settings_)
                outputs.setdefault(rank, []).append(fitted(problem.x[held]).detach())
        if not folds:
            return given
        tried = {rank: torch.cat(parts) for rank, parts in outputs.items()}
        asked = problem.take(torch.cat([held for _, held in folds]))
        return defaults.choose_structure(asked, tried, torch.cat(linear))

    def _count(self, problem: Problem) -> float:
        """Return the number of samples, with the copies that their weights stand for."""
        return self._copies * float(problem.weight.sum())

    def _with_copies(self, problem: Problem) -> Problem:
        return replace(problem, weight=problem.weight * self._copies)

    def _run_solver(
        self,
        network: RankRNet,
        problem: Problem,
        settings: Settings,
        *,
        state: AdamState | None = None,
        validation: Problem | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Fitted:
        epochs, cosine = settings["epochs"], settings["schedule"] == "cosine"
        # a rate that falls to zero has its length; only samples held out may end it before
        patience = None if cosine and validation is None else self.patience
        loop = EpochLoop(epochs, self.tol, patience, validation, on_epoch, bool(self.verbose))
        rate, decay, batch = (settings[k] for k in ("learning_rate", "weight_decay", "batch_size"))
        if self.solver == "alternating":
            steps = Steps(rate, self.inner_steps, batch, decay)
            return *fit_alternating(network, problem, loop, steps, generator=self._random), None
        joint = JointSettings(
            rate,
            decay,
            settings["penalty"] / self._count(problem),
            batch,
            head_start=HEAD_START if settings["schedule"] == "head start" else 0.0,
            cosine_steps=epochs * len(batch_slices(len(problem), batch)) if cosine else None,
        )
        return fit_joint(network, problem, loop, joint, generator=self._random, state=state)

    # -- settings -----------------------------------------------------------------------------

    @property
    def _asks_samples(self) -> bool:
        """Whether "auto" is decided by the samples."""
        return self.standardize == "auto" and self.solver == "joint" and self.start == "data"

    @property
    def _chooses_rank(self) -> bool:
        """Whether ranks are tried; a network that is to be trained further keeps its units."""
        return (
            self._asks_samples and self.rank == "auto" and self.hidden_bias and not self.warm_start
        )

    @property
    def _continues(self) -> bool:
        """Whether the next fit starts from the network that the model has."""
        return bool(self.warm_start) and hasattr(self, "network_")

    def _fixed_settings(self, n: int) -> Settings:
        """Return the settings of a fit to ``n`` samples, whatever the samples are."""
        joint, solver = self.solver == "joint", parameters.SOLVERS[self.solver]
        batch = defaults.batch_size_for(n) if joint else parameters.PAPER_BATCH
        auto = {
            "rank": 1,
            "activation": "tanh",
            "standardize": -1,
            "penalty": 0.0,
            "batch_size": batch,
            **solver,
        }
        given = {name: getattr(self, name) for name in auto}
        settings = {
            name: auto[name] if value == "auto" else parameters.plain(value)
            for name, value in given.items()
        }
        schedule = "head start" if joint and self.learning_rate == "auto" else "constant"
        return settings | {
            "linear": 0.0, "whiten": 0.0, "schedule": schedule, "epochs": self.epochs
        }  # fmt: skip

    def _choose_settings(self, X: Array, target: Array, weight: Array) -> Settings:
        """Return what every "auto" stands for in a fit to these samples."""
        settings = self._fixed_settings(len(X))
        self._copies = 1.0
        if not self._asks_samples:
            return settings
        choice = defaults.choose(X, target, weight, self._random)
        self._copies = choice.n / len(X)
        settings["standardize"] = choice.coordinates.standardize
        settings["whiten"] = choice.coordinates.whiten
        if self.learning_rate == "auto":
            batch = settings["batch_size"]
            epochs = defaults.epochs_for(len(X), batch, int(self.epochs))
            rate = defaults.learning_rate_for(epochs * len(batch_slices(len(X), batch)))
            settings |= {"learning_rate": rate, "schedule": "cosine", "epochs": epochs}
        if self.activation == "auto":
            settings["activation"] = "relu"
        if self.weight_decay == "auto":
            settings["weight_decay"] = 0.0
            if self.penalty == "auto":
                settings["penalty"] = self._auto_penalty(choice, X.ndim - 1)
        return settings

    def _coordinates(self) -> Settings:
        """Return the settings that say in which coordinates the fitted network works."""
        if hasattr(self, "settings_"):
            return {name: self.settings_[name] for name in ("standardize", "whiten")}
        return {"standardize": None if self.scaler_ is None else self.scaler_.mode, "whiten": 0.0}

    def _threads(self, X: Array) -> int:
        """Return how many threads share an operation of a fit: the product with a batch."""
        settings = self._fixed_settings(len(X))
        batch = min(settings["batch_size"] or len(X), len(X))
        return threads_for(2.0 * batch * X[0].size * self.hidden * settings["rank"])

    # -- parts of a fit -----------------------------------------------------------------------

    def _principal_axes(self, problem: Problem) -> PrincipalAxes | None:
        """Return the coordinates that the joint solver works in, where they are not X's own."""
        if self.solver != "joint" or self.start != "data":
            return None
        mode = self.settings_["standardize"]
        if mode == "common":
            return None
        return PrincipalAxes.of(problem, -1 if mode is None else mode, self.settings_["whiten"])

    def _new_network(self, problem: Problem, rank: int) -> RankRNet:
        start = "unit-variance" if self.start == "data" else self.start
        network = RankRNet(
            problem.x.shape[1:],
            int(self.hidden),
            problem.target.shape[1],
            int(rank),
            self.settings_["activation"],
            hidden_bias=self.hidden_bias,
            start=start,
            dtype=problem.x.dtype,
            generator=self._random,
        )
        network.to(problem.x.device)
        if self.start == "data":
            start_from_data(network, problem, self._random)
        return network

    def _split(self, problem: Problem, y: Array) -> tuple[Problem, Problem | None]:
        if not self.early_stopping:
            return problem, None
        from sklearn.model_selection import train_test_split  # only here, and slow to import

        seed = int(torch.randint(2**31 - 1, (1,), generator=self._random))
        train, held = train_test_split(
            np.arange(len(problem)),
            test_size=self.validation_fraction,
            random_state=seed,
            stratify=self._validation_strata(y),
        )
        return problem.take(torch.from_numpy(train)), problem.take(torch.from_numpy(held))

    def _problem(self, X: Array, target: Array, weight: Array, fitted: RankRNet | None) -> Problem:
        """Return what is to be learned, in the precision of a network that is fitted further."""
        x = _tensor(self._standardized(X)).to(parameters.resolve_device(self.device))
        if fitted is not None:
            x = x.to(fitted.output.weight.dtype)
        shares = torch.from_numpy(weight / weight.mean()).to(x)
        return Problem(x, _tensor(target).to(x), shares, self._loss)

    def _standardized(self, X: Array) -> Array:
        return X if self.scaler_ is None else self.scaler_.transform(X)

    def _generator(self) -> torch.Generator:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return torch.Generator().manual_seed(int(seed))

    # -- prediction ---------------------------------------------------------------------------

    def _outputs(self, X: Any) -> Array:
        """Return the network's outputs ``(n, C)``, a bounded chunk of samples at a time."""
        check_is_fitted(self, "network_")
        X = scaler.as_samples(X)
        scaler.check_sample_shape(X, self.sample_shape_)
        X = validate_data(self, X, reset=False, **scaler.NUMERIC, order="C")
        size = max(1, CHUNK_BYTES // max(1, X[0].nbytes))
        parameter = self.network_.output.weight
        outputs = []
        flops = 2.0 * min(size, len(X)) * X[0].size * parameter.shape[1]
        with torch.no_grad(), limit_threads(threads_for(flops)):
            for start in range(0, len(X), size):
                chunk = _tensor(self._standardized(X[start : start + size]))
                outputs.append(self.network_(chunk.to(parameter)).cpu().numpy())
        return np.concatenate(outputs)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as an ONNX file, for onnxruntime, a browser or another language.

        Its input ``X`` is single precision, ``(n, I_1, ..., I_D)`` for any n, as it comes:
        standardization is inside. A classifier's outputs are ``label``, ``(n,)``, and
        ``probabilities``, ``(n, C)``; a regressor's is ``y``, as `predict` gives it. Classes and
        sample shape are in the metadata, as JSON.

        Parameters
        ----------
        path : path-like
            By custom it ends in ``.onnx``. Needs the extra ``polyad[onnx]``.
        """
        from polyad.estimators.onnx_export import write_model

        write_model(self, path)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """If the block raises, leave the estimator as it was: a failed fit loses no model."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    # -- checks -------------------------------------------------------------------------------

    def _check_data(
        self, X: Any, y: Any, sample_weight: Any, reset: bool
    ) -> tuple[Array, Array, Array]:
        if y is None:
            raise InputError(
                f"This {type(self).__name__} estimator requires y to be passed, "
                "but the target y is None"
            )
        X = scaler.as_samples(X)
        y = np.ascontiguousarray(y.toarray() if hasattr(y, "toarray") else scaler.as_numpy(y))
        if not reset:
            scaler.check_sample_shape(X, self.sample_shape_)
        X, y = validate_data(
            self, X, y, reset=reset, multi_output=self._loss != "log", **scaler.NUMERIC, order="C"
        )
        scaler.check_modes(X)
        weight = scaler.check_weight(sample_weight, X)
        if reset:
            self.sample_shape_ = X.shape[1:]
        return X, y, weight

    def _check_same_task(self, network: RankRNet, shape: tuple[int, ...]) -> None:
        """Raise `InputError` unless the fitted network can go on with samples of ``shape``."""
        layer = network.hidden
        for name, before, now in (
            ("sample shape", tuple(layer.in_shape), tuple(shape)),
            ("rank", layer.rank, self.rank),
            ("hidden", layer.out_features, self.hidden),
            ("activation", network.activation, self.activation),
            ("hidden_bias", layer.bias is not None, self.hidden_bias),
        ):
            if now not in (before, "auto"):
                raise InputError(
                    f"a warm start goes on with the same {name}, {before}, got {now}; fit with "
                    "warm_start=False"
                )

    def __sklearn_tags__(self) -> Any:
        """Say what scikit-learn's tools may pass: samples may be matrices and more."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Keep the network as plain arrays, so that any machine can open it, and skops too."""
        state = dict(super().__getstate__())
        network = state.pop("network_", None)
        state = {k: v for k, v in state.items() if k not in ("_random", "_adam_state")}
        if network is not None:
            weights = {k: v.detach().cpu().numpy() for k, v in network.state_dict().items()}
            state[NETWORK] = network_sizes(network) | {"weights": weights}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the network of its arrays again."""
        kept = state.get(NETWORK)
        if kept is not None:
            weights = {k: torch.from_numpy(v.copy()) for k, v in kept["weights"].items()}
            sizes = {k: v for k, v in kept.items() if k != "weights"}
            network = RankRNet(**sizes, device="meta", dtype=weights["output.weight"].dtype)
            network.load_state_dict(weights, assign=True)
            state = {k: v for k, v in state.items() if k != NETWORK} | {"network_": network}
        super().__setstate__(state)


def _expanding(on_epoch: OnEpoch, axes: PrincipalAxes) -> OnEpoch:
    """Call ``on_epoch`` with the network on samples as they are."""
    return lambda epoch, network: on_epoch(epoch, axes.expand(network))


def _tensor(array: Array) -> Tensor:
    """Return the array as a tensor: its own memory where it may be written to, else a copy."""
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())
