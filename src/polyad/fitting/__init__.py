"""Solvers: functions that take a network and a problem and return a fitted copy of the network."""

from typing import TYPE_CHECKING

from polyad.lazy import lazy_names

if TYPE_CHECKING:
    from polyad.fitting.adam import AdamState
    from polyad.fitting.alternating import Steps, fit_alternating, fit_alternating_reference
    from polyad.fitting.axes import PrincipalAxes
    from polyad.fitting.epochs import History, OnEpoch, Stopping, batch_slices, run_epochs
    from polyad.fitting.joint import JointFit, fit_joint
    from polyad.fitting.problem import Problem
    from polyad.fitting.start import start_from_data

__all__ = [
    "AdamState",
    "History",
    "JointFit",
    "OnEpoch",
    "PrincipalAxes",
    "Problem",
    "Steps",
    "Stopping",
    "batch_slices",
    "fit_alternating",
    "fit_alternating_reference",
    "fit_joint",
    "run_epochs",
    "start_from_data",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        adam="AdamState",
        alternating="Steps fit_alternating fit_alternating_reference",
        axes="PrincipalAxes",
        epochs="History OnEpoch Stopping batch_slices run_epochs",
        joint="JointFit fit_joint",
        problem="Problem",
        start="start_from_data",
    )
