"""Indian Pines from ten labels per class: cut patches, fit, score.

    python examples/indian_pines.py

The scene comes with TensorLy, so there is nothing to download. `polyad demo` does the same and
writes the map; this is what it comes down to.
"""

from __future__ import annotations

import argparse
import time

from polyad import RankRClassifier
from polyad.scene import (
    Scores,
    extract_patches,
    no_overlap,
    open_known,
    open_known_labels,
    per_class,
    score,
)


def main(argv: list[str] | None = None) -> Scores:
    parser = argparse.ArgumentParser(description="Rank-R network on Indian Pines")
    parser.add_argument("--samples-per-class", type=int, default=10)
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)

    scene, labels = open_known("indian-pines"), open_known_labels("indian-pines")
    split = per_class(labels, options.samples_per_class, random_state=options.seed)
    y, y_test = split.classes_of(labels)

    started = time.perf_counter()
    model = RankRClassifier(options.rank, epochs=options.epochs, random_state=options.seed)
    model.fit(extract_patches(scene, *split.train.T), y)  # (n, 5, 5, 200)
    fitted = time.perf_counter()
    predicted = model.predict(extract_patches(scene, *split.test.T))
    done = time.perf_counter()

    scores = score(y_test, predicted, no_overlap=no_overlap(split, labels.shape))
    print(f"training pixels   {len(y)} of {len(labels.attrs['class_names'])} classes")
    print(f"overall accuracy  {scores.overall_accuracy:.2%} of {scores.n_test} test pixels")
    print(
        f"  no overlap      {scores.overall_accuracy_no_overlap:.2%} of the "
        f"{scores.n_test_no_overlap} whose patch shares no pixel with a training patch"
    )
    print(f"seconds           {fitted - started:.2f} to fit, {done - fitted:.2f} to predict")
    return scores


if __name__ == "__main__":
    main()
