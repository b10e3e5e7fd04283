"""Many samples: 20,000 tables of 8 x 16 whose class is the largest of a few linear scores.

python -m benchmarks.many_samples [--seeds 3]   # prints a table of docs/in-your-model.md

The scores are dense, not of low rank, and there is no noise: the easiest problem for logistic
regression. The rules of `polyad.estimators.defaults` were settled on seeds from 100 on.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from polyad import RankRClassifier

TRAIN, TEST = 20_000, 5_000
MODELS = {
    "`RankRClassifier(1)` with tanh": lambda seed: RankRClassifier(
        1, activation="tanh", random_state=seed
    ),
    "`RankRClassifier(4)` with tanh": lambda seed: RankRClassifier(
        4, activation="tanh", random_state=seed
    ),
    "logistic regression": lambda _: LogisticRegression(max_iter=500),
    "MLP": lambda seed: MLPClassifier(random_state=seed),
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    seeds = arguments.parse_args().seeds
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts = (2, 4, 10)
    print(f"| model | {' | '.join(f'{k} classes, % | s' for k in counts)} |")
    print(f"|---|{'---:|---:|' * len(counts)}")
    for name, make in MODELS.items():
        cells = []
        for classes in counts:
            scores, seconds = [], []
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                X = rng.normal(size=(TRAIN + TEST, 8, 16)).astype(np.float32)
                flat = X.reshape(len(X), -1)
                y = (flat @ rng.normal(size=(128, classes))).argmax(axis=1)
                samples = X if name.startswith("`") else flat
                started = time.process_time()
                model = make(seed).fit(samples[:TRAIN], y[:TRAIN])
                seconds.append(time.process_time() - started)
                scores.append(100 * model.score(samples[TRAIN:], y[TRAIN:]))
            cells.append(f"{np.mean(scores):.1f} ± {np.std(scores):.1f} | {np.mean(seconds):.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
