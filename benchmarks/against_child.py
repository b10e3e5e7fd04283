"""Run the published script on given data, epoch by epoch: a program of its own, no module.

    python -P against_child.py SCRIPT FOLDER

It reads ``FOLDER/given.npz`` and runs SCRIPT's main block with five things replaced: its modules
``LoadData`` and ``PCA``, which would read files and draw pixels; its settings, which are numbers in
the block; its first weights, which it draws with ``xavier_uniform_``; the number of its epochs; and
what it does after an epoch, where it would classify the test set. After each epoch it writes the
weights to ``FOLDER/weights.npz`` and one line, its processor seconds, to standard output, and waits
for a line. Whatever the script prints itself goes nowhere.

It imports nothing of polyad: what runs here is the script.
"""

from __future__ import annotations

import ast
import io
import os
import sys
import time
import types
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

LOOP = "tensor_epochs"  # the variable of the script's loop over epochs
HOOK = "_polyad_after_epoch"


def replaced_main(source: str, settings: dict[str, int], epochs: int) -> ast.Module:
    """Return the script with its settings and number of epochs replaced, and a call after each."""
    tree = ast.parse(source)
    loops = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and target.id in settings:
                node.value = ast.Constant(settings[target.id])
        if isinstance(node, ast.For) and getattr(node.target, "id", None) == LOOP:
            loops += 1
            node.iter = ast.parse(f"range({epochs})", mode="eval").body
            # What follows the last block of training (a test of the epoch's number) classifies
            while node.body and isinstance(node.body[-1], ast.If):
                node.body.pop()
            node.body.append(ast.parse(f"{HOOK}(globals())").body[0])
    if loops != 1:
        sys.exit(f"it has {loops} loops over {LOOP}, not one")
    return ast.fix_missing_locations(tree)


def stubs(given: Any) -> dict[str, types.ModuleType]:
    """Return the two modules that the script imports, which hand out the given data."""
    x, y, cuts = given["x"], given["y"], given["cuts"]
    few = (x[:1], y[:1])  # no test set: it would be classified outside of the timed part
    batches = [[x[a:b], y[a:b]] for a, b in pairwise(cuts)]
    return {
        "LoadData": _module(
            "LoadData",
            preprocess_data=lambda *_, **__: (None, None, None, None, x.shape[-1], None),
            load_data_multi_samples=lambda *_, **__: [(x, y), few, few],
            batch_creation=lambda *_, **__: batches,
        ),
        "PCA": _module(
            "PCA", scale_fit=lambda values: (values, None), scale_transform=lambda values, _: values
        ),
    }


def _module(name: str, **functions: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(functions)
    return module


def main() -> None:
    """Run the script."""
    script, folder = Path(sys.argv[1]), Path(sys.argv[2])
    with np.load(folder / "given.npz") as stored:
        given = dict(stored)
    torch.set_num_threads(1)
    torch.set_default_dtype(getattr(torch, str(given["x"].dtype)))
    out, sys.stdout = sys.stdout, io.StringIO()
    starts = [torch.from_numpy(given[name]) for name in ("rows", "columns", "spectral", "output")]

    def start(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        if not starts:
            return tensor
        with torch.no_grad():
            return tensor.copy_(starts.pop(0))

    clock = {"started": 0.0}

    def after_epoch(names: dict[str, Any]) -> None:
        seconds = time.process_time() - clock["started"]
        modes = [names[f"net_mode_{k}"].W.detach().numpy() for k in range(3)]
        last = names["net_hidden"].fc1
        weights = [*modes, last.weight.detach().numpy(), last.bias.detach().numpy()]
        np.savez(folder / "weights.npz", *weights)  # a private folder, which is removed
        print(f"{seconds:.6f}", file=out, flush=True)
        if not sys.stdin.readline():
            sys.exit("nobody listens")
        sys.stdout.seek(0)
        sys.stdout.truncate()
        clock["started"] = time.process_time()

    settings = {
        "n_classes": int(given["y"].max()) + 1,
        "window_sz": given["x"].shape[1],
        "hidden": len(given["rows"]),
        "rank": given["rows"].shape[1],
    }
    tree = replaced_main(script.read_text(encoding="utf-8"), settings, int(given["epochs"]))
    torch.nn.init.xavier_uniform_ = start
    sys.modules.update(stubs(given))
    sys.path.insert(0, str(script.resolve().parent))
    os.chdir(folder)
    if not sys.stdin.readline():  # the first epoch is asked for, as every other
        return
    clock["started"] = time.process_time()
    exec(compile(tree, str(script), "exec"), {"__name__": "__main__", HOOK: after_epoch})


if __name__ == "__main__":
    main()
