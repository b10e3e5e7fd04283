"""How a Rank-R network is learned behind scikit-learn's contract.

`fit` checks and encodes, standardizes, builds a network, and hands it to a solver; prediction
standardizes in the same way and runs the network batch by batch. The two estimators differ only
in how they encode ``y`` and read the network's outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from polyad.core.network import RankRNet, join_networks, network_sizes
from polyad.errors import InputError
from polyad.estimators.defaults import (
    FULL_BATCH_UP_TO,
    Choice,
    Structure,
    batch_size_for,
    choose,
    choose_structure,
    epochs_for,
    held_out_folds,
    learning_rate_for,
    ranks_for,
    scaler_for,
)
from polyad.estimators.parameters import (
    PAPER,
    PAPER_BATCH,
    ActivationName,
    Array,
    Auto,
    Device,
    Samples,
    Solver,
    StartName,
    check_parameters,
    rate_of,
    resolve_device,
)
from polyad.estimators.scaler import (
    NUMERIC,
    ModeStandardScaler,
    as_numpy,
    as_samples,
    check_modes,
    check_sample_shape,
    check_weight,
)
from polyad.fitting.alternating import Steps, fit_alternating
from polyad.fitting.epochs import History, OnEpoch, Stopping, batch_slices
from polyad.fitting.joint import AdamState, fit_joint
from polyad.fitting.linear import as_network, fit_linear
from polyad.fitting.modes import PrincipalAxes, start_from_data
from polyad.fitting.problem import Problem
from polyad.threads import limit_threads, threads_for

HEAD_START = 2.0  # of a joint fit's "auto" learning rate: it begins three times as large
CHUNK_BYTES = 64 * 2**20  # of input standardized at a time in prediction
NETWORK = "network_arrays"  # under which a pickle has the network


class RankREstimator(BaseEstimator):
    """What `RankRClassifier` and `RankRRegressor` share; not to be used by itself."""

    _loss: str
    sample_shape_: tuple[int, ...]
    network_: RankRNet
    settings_: dict[str, Any]
    _copies = 1.0  # of each sample, on average, that its weight stands for

    def __init__(
        self,
        rank: int | Auto = "auto",
        hidden: int = 75,
        *,
        solver: Solver = "joint",
        activation: ActivationName | Auto = "auto",
        start: StartName = "data",
        hidden_bias: bool = True,
        epochs: int = 200,
        learning_rate: float | Auto = "auto",
        batch_size: int | Auto | None = "auto",
        inner_steps: int = 10,
        weight_decay: float | Auto = "auto",
        penalty: float | Auto = "auto",
        standardize: int | Auto | None = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int | None = 10,
        tol: float = 1e-4,
        device: Device = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.rank = rank
        self.hidden = hidden
        self.solver = solver
        self.activation = activation
        self.start = start
        self.hidden_bias = hidden_bias
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.inner_steps = inner_steps
        self.weight_decay = weight_decay
        self.penalty = penalty
        self.standardize = standardize
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.tol = tol
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

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
        return cls(rank=rank, **(PAPER | overrides))

    # -- what the two estimators fill in ------------------------------------------------------

    def _encode(self, y: Array, weight: Array) -> tuple[Array, Array]:
        """Learn how to encode ``y``; return targets ``(n, C)`` and sample weights ``(n,)``."""
        raise NotImplementedError  # pragma: no cover

    def _stratify(self, y: Array) -> Array | None:
        """Return what the validation split is stratified by."""
        raise NotImplementedError  # pragma: no cover

    def _pull(self, choice: Choice, order: int) -> float:
        """Return what the penalty on squared weights is, times the number of samples."""
        raise NotImplementedError  # pragma: no cover

    # -- fitting ------------------------------------------------------------------------------

    def _fit(self, X: Samples, y: Any, sample_weight: Any, on_epoch: Any = None) -> Self:
        check_parameters(self)
        X, y, weight = self._check_data(X, y, sample_weight, reset=True)
        resumed = self.network_ if self._resumes else None
        if resumed is not None:
            self._check_same_task(resumed, X.shape[1:])
        generator = self._generator()
        target, weight = self._encode(y, weight)
        with limit_threads(self._threads(X)):
            before = self._coordinates() if resumed is not None else {}
            # the coordinates of a network that is gone on with stay
            self.settings_ = self._resolve(X, target, weight, generator) | before
            if resumed is None:
                self._fit_scaler(X, weight)
            problem = self._problem(X, target, weight, resumed)
            network, history, state = self._learn(problem, y, resumed, generator, on_epoch)
        self.network_, self.history_ = network, history
        self._resume, self._state = generator, state
        self.n_iter_ = len(history)
        return self

    def _learn(
        self,
        problem: Problem,
        y: Array,
        network: RankRNet | None,
        generator: torch.Generator,
        on_epoch: OnEpoch | None,
    ) -> tuple[RankRNet, History, AdamState | None]:
        """Choose the structure, and fit a new network, or go on with the one that is given."""
        axes, samples = self._axes(problem), problem
        if self._chooses_rank and len(problem) <= FULL_BATCH_UP_TO:
            samples = problem.merged()
        if axes is not None:
            problem = axes.project(problem)
        structure = self._structure(samples, axes, generator)
        self.settings_ |= {"rank": structure.rank, "linear": structure.linear}
        if network is None:
            network = self._network(problem, generator, structure.rank)
        elif axes is not None:
            network, axes = axes.enter(network)
        problem, validation = self._split(problem, y, generator)
        if axes is not None and on_epoch is not None:
            on_epoch = _expanding(on_epoch, axes)
        fitted, history, state = self._solve(
            network, problem, generator, self.settings_, validation=validation, on_epoch=on_epoch
        )
        if axes is not None:
            fitted, state = axes.expand(fitted), None  # the state belongs to other coordinates
        share = structure.linear
        linear = fit_linear(self._counted(samples), generator) if share else None
        if linear is not None:
            straight = as_network(linear, fitted, samples.x)
            fitted, state = join_networks([fitted, straight], [1 - share, share]), None
        return fitted, history, state

    def _partial_fit(self, X: Samples, y: Any, sample_weight: Any, first: bool) -> Self:
        """Take one more epoch on the samples given; the scaler stays as first fitted."""
        check_parameters(self)
        X, y, weight = self._check_data(X, y, sample_weight, reset=first)
        if first:
            self.history_ = History()
        if not hasattr(self, "_resume"):  # the first call, or the first since it was unpickled
            self._resume, self._state = self._generator(), None
        with limit_threads(self._threads(X)):
            # single epochs have no schedule, and a first batch may not be like all
            settings = self._given(len(X)) | {"schedule": "constant", "epochs": 1}
            if first:
                self.settings_ = settings
                self._fit_scaler(X, weight)
            fitted = None if first else self.network_
            problem = self._problem(X, *self._encode(y, weight), fitted)
            if first:
                self.network_ = self._network(problem, self._resume, self.settings_["rank"])
            self.network_, history, self._state = self._solve(
                self.network_, problem, self._resume, settings, state=self._state
            )
        for name, values in vars(self.history_).items():
            values.extend(getattr(history, name))
        self.n_iter_ = len(self.history_)
        return self

    def _structure(
        self, samples: Problem, axes: PrincipalAxes | None, generator: torch.Generator
    ) -> Structure:
        """Return rank and linear share: as given, or as samples held out in turn prefer."""
        given = Structure(self.settings_["rank"], 0.0)
        if not self._chooses_rank:
            return given
        problem = samples if axes is None else axes.project(samples)
        linear: list[Tensor] = []
        outputs: dict[int, list[Tensor]] = {}
        folds = held_out_folds(problem, self._count(problem), generator)
        for rest, held in folds:
            straight = fit_linear(self._counted(samples.take(rest)), generator)
            if straight is None:
                return given
            linear.append(straight(samples.x[held]))
            some = problem.take(rest)
            for rank in ranks_for(some.x.shape[1:], self._count(some)):
                network = self._network(some, generator, rank)
                fitted, *_ = self._solve(network, some, generator, self.settings_)
                outputs.setdefault(rank, []).append(fitted(problem.x[held]).detach())
        if not folds:
            return given
        tried = {rank: torch.cat(parts) for rank, parts in outputs.items()}
        asked = problem.take(torch.cat([held for _, held in folds]))
        return choose_structure(asked, tried, torch.cat(linear))

    def _count(self, problem: Problem) -> float:
        """Return the number of samples, with the copies that their weights stand for."""
        return self._copies * float(problem.weight.sum())

    def _counted(self, problem: Problem) -> Problem:
        return replace(problem, weight=problem.weight * self._copies)

    def _solve(
        self,
        network: RankRNet,
        problem: Problem,
        generator: torch.Generator,
        settings: dict[str, Any],
        *,
        state: AdamState | None = None,
        validation: Problem | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> tuple[RankRNet, History, AdamState | None]:
        """Call the solver that was asked for."""
        epochs, scheduled = settings["epochs"], settings["schedule"] == "cosine"
        # a rate that falls to zero has its length; only samples held out may end it before
        patience = None if scheduled and validation is None else self.patience
        stopping = Stopping(epochs, self.tol, patience)
        watch: dict[str, Any] = {
            "generator": generator,
            "validation": validation,
            "on_epoch": on_epoch,
            "verbose": bool(self.verbose),
        }
        rate, decay, batch = (settings[k] for k in ("learning_rate", "weight_decay", "batch_size"))
        if self.solver == "alternating":
            steps = Steps(rate, self.inner_steps, batch, decay)
            return *fit_alternating(network, problem, stopping, steps, **watch), None
        batches = len(batch_slices(len(problem), batch))
        fit = fit_joint(
            network,
            problem,
            stopping,
            learning_rate=rate,
            weight_decay=decay,
            penalty=settings["penalty"] / self._count(problem),
            head_start=HEAD_START if settings["schedule"] == "head start" else 0.0,
            cosine_steps=epochs * batches if scheduled else None,
            batch_size=batch,
            state=state,
            **watch,
        )
        return fit.network, fit.history, fit.state

    def _resolve(
        self, X: Array, target: Array, weight: Array, generator: torch.Generator
    ) -> dict[str, Any]:
        """Return what every "auto" stands for in a fit to these samples."""
        settings = self._given(len(X))
        self._copies = 1.0
        if not self._automatic:
            return settings
        choice = choose(X, target, weight, generator)
        self._copies = choice.n / len(X)
        settings["standardize"] = choice.coordinates.standardize
        settings["whiten"] = choice.coordinates.whiten
        if self.learning_rate == "auto":
            batch = settings["batch_size"]
            epochs = epochs_for(len(X), batch, int(self.epochs))
            rate = learning_rate_for(epochs * len(batch_slices(len(X), batch)))
            settings |= {"learning_rate": rate, "schedule": "cosine", "epochs": epochs}
        if self.activation == "auto":
            settings["activation"] = "relu"
        if self.weight_decay == "auto":
            settings["weight_decay"] = 0.0
            if self.penalty == "auto":
                settings["penalty"] = self._pull(choice, X.ndim - 1)
        return settings

    @property
    def _automatic(self) -> bool:
        """Whether the samples are asked what suits them."""
        return self.standardize == "auto" and self.solver == "joint" and self.start == "data"

    @property
    def _chooses_rank(self) -> bool:
        """Whether ranks are tried; a network that is to be fitted further keeps its units."""
        return self._automatic and self.rank == "auto" and self.hidden_bias and not self.warm_start

    @property
    def _resumes(self) -> bool:
        """Whether the next fit starts from the network that the model has."""
        return bool(self.warm_start) and hasattr(self, "network_")

    def _given(self, n: int) -> dict[str, Any]:
        """Return the settings of a fit to ``n`` samples that are not asked what suits them."""
        joint = self.solver == "joint"
        batch = batch_size_for(n) if joint else PAPER_BATCH
        return {
            "rank": 1 if self.rank == "auto" else self.rank,
            "linear": 0.0,
            "activation": "tanh" if self.activation == "auto" else self.activation,
            "standardize": -1 if self.standardize == "auto" else self.standardize,
            "whiten": 0.0,
            "learning_rate": rate_of(self, "learning_rate"),
            "schedule": "head start" if joint and self.learning_rate == "auto" else "constant",
            "weight_decay": rate_of(self, "weight_decay"),
            "penalty": 0.0 if self.penalty == "auto" else float(self.penalty),
            "batch_size": batch if self.batch_size == "auto" else self.batch_size,
            "epochs": self.epochs,
        }

    def _threads(self, X: Array) -> int:
        """Return how many threads share an operation of a fit: the product with a batch."""
        given = self._given(len(X))
        batch = min(given["batch_size"] or len(X), len(X))
        return threads_for(2.0 * batch * X[0].size * self.hidden * given["rank"])

    def _axes(self, problem: Problem) -> PrincipalAxes | None:
        """Return the coordinates that the joint solver works in, where they are not X's own."""
        if self.solver != "joint" or self.start != "data":
            return None
        mode = self.settings_["standardize"]
        if mode == "common":
            return None
        return PrincipalAxes.of(problem, -1 if mode is None else mode, self.settings_["whiten"])

    def _network(self, problem: Problem, generator: torch.Generator, rank: int) -> RankRNet:
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
            generator=generator,
        )
        network.to(problem.x.device)
        if self.start == "data":
            start_from_data(network, problem, generator)
        return network

    def _split(
        self, problem: Problem, y: Array, generator: torch.Generator
    ) -> tuple[Problem, Problem | None]:
        if not self.early_stopping:
            return problem, None
        from sklearn.model_selection import train_test_split  # only here, and slow to import

        seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
        train, held = train_test_split(
            np.arange(len(problem)),
            test_size=self.validation_fraction,
            random_state=seed,
            stratify=self._stratify(y),
        )
        return problem.take(torch.from_numpy(train)), problem.take(torch.from_numpy(held))

    def _fit_scaler(self, X: Array, weight: Array) -> None:
        mode = self.settings_["standardize"]
        self.scaler_: ModeStandardScaler | None = None
        if mode is not None:
            self.scaler_ = scaler_for(mode, X, weight)

    def _problem(self, X: Array, target: Array, weight: Array, fitted: RankRNet | None) -> Problem:
        """Return what is to be learned, in the precision of a network that is fitted further."""
        x = _tensor(self._standardized(X)).to(resolve_device(self.device))
        if fitted is not None:
            x = x.to(fitted.output.weight.dtype)
        return Problem(
            x,
            _tensor(target).to(x),
            torch.from_numpy(weight / weight.mean()).to(x),
            self._loss,
        )

    def _standardized(self, X: Array) -> Array:
        return X if self.scaler_ is None else self.scaler_.transform(X)

    def _generator(self) -> torch.Generator:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return torch.Generator().manual_seed(int(seed))

    # -- prediction ---------------------------------------------------------------------------

    def _outputs(self, X: Any) -> Array:
        """Return the network's outputs ``(n, C)``, a bounded chunk of samples at a time."""
        check_is_fitted(self, "network_")
        X = as_samples(X)
        check_sample_shape(X, self.sample_shape_)
        X = validate_data(self, X, reset=False, **NUMERIC, order="C")
        size = max(1, CHUNK_BYTES // max(1, X[0].nbytes))
        parameter = self.network_.output.weight
        outputs = []
        flops = 2.0 * min(size, len(X)) * X[0].size * parameter.shape[1]
        with torch.no_grad(), limit_threads(threads_for(flops)):
            for start in range(0, len(X), size):
                chunk = _tensor(self._standardized(X[start : start + size]))
                outputs.append(self.network_(chunk.to(parameter)).cpu().numpy())
        return np.concatenate(outputs)

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
        X = as_samples(X)
        y = np.ascontiguousarray(y.toarray() if hasattr(y, "toarray") else as_numpy(y))
        if not reset:
            check_sample_shape(X, self.sample_shape_)
        X, y = validate_data(
            self, X, y, reset=reset, multi_output=self._loss != "log", **NUMERIC, order="C"
        )
        check_modes(X)
        weight = check_weight(sample_weight, X)
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

    def _coordinates(self) -> dict[str, Any]:
        """Return the settings that say in which coordinates the fitted network works."""
        if hasattr(self, "settings_"):
            return {name: self.settings_[name] for name in ("standardize", "whiten")}
        return {"standardize": None if self.scaler_ is None else self.scaler_.mode, "whiten": 0.0}

    def __sklearn_tags__(self) -> Any:
        """Say what scikit-learn's tools may pass: samples may be matrices and more."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Keep the network as plain arrays, so that any machine can open it, and skops too."""
        state = dict(super().__getstate__())
        network = state.pop("network_", None)
        state = {k: v for k, v in state.items() if k not in ("_resume", "_state")}
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
