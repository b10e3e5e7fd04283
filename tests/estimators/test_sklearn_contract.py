"""scikit-learn's own checks, with nothing expected to fail.

`make test` runs them on the estimators as they come; other settings are left to `make test-all`.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from polyad.estimators.classifier import RankRClassifier
from polyad.estimators.regressor import RankRRegressor
from polyad.estimators.scaler import ModeStandardScaler


@pytest.mark.every_case
@parametrize_with_checks([RankRClassifier(hidden=20), RankRRegressor(hidden=20)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        RankRClassifier.paper(hidden=20, epochs=20, learning_rate=0.01),
        RankRRegressor(hidden=20, solver="alternating", learning_rate=0.01, epochs=20),
        ModeStandardScaler(),
    ]
)
def test_scikit_learn_contract_of_other_settings(estimator, check):
    check(estimator)
