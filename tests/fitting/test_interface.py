"""`polyad.fitting` gives what a solver is written with, by names of its own."""

import polyad.fitting
from polyad.fitting.alternating import fit_alternating
from polyad.fitting.epochs import run_epochs
from polyad.fitting.joint import fit_joint


def test_every_public_name_can_be_imported_from_the_package():
    for name in polyad.fitting.__all__:
        assert name in dir(polyad.fitting)
        assert getattr(polyad.fitting, name) is not None


def test_a_fit_function_is_not_hidden_by_a_module():
    assert polyad.fitting.fit_joint is fit_joint
    assert polyad.fitting.fit_alternating is fit_alternating
    assert polyad.fitting.run_epochs is run_epochs
