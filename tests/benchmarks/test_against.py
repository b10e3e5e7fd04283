"""Our solver beside a script of the published one's make: same start, same batches.

The script here is a stand-in written for these tests. It has what is taken hold of in the published
one: the two modules it imports, the names of its settings and networks, its loop over
``tensor_epochs`` with the classification behind it; and Algorithm 1 between them, in its own words.
Set POLYAD_AUTHORS to the published Rank_R_FNN.py to hold ours against that.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from benchmarks import against
from benchmarks.against import load_turns, render_against, run_against
from polyad.errors import InputError

TINY = "standin-tiny"
STANDIN = """
import types
import torch
import LoadData, PCA

def hidden_units(factors, x):
    return torch.tanh(torch.einsum("nabc,qra,qrb,qrc->nq", x, *factors))

if __name__ == "__main__":
    n_classes = 99
    window_sz = 99
    samples = 50
    hidden = 99
    rank = 99
    *_, n_components, _ = LoadData.preprocess_data("no such file.mat", window_sz)
    datasets = LoadData.load_data_multi_samples(None, None, n_components, n_classes, samples)
    (train_set_x, train_set_y), (test_set_x, test_set_y) = datasets[:2]
    train_set_x, scaler = PCA.scale_fit(train_set_x)
    batches = LoadData.batch_creation(train_set_x, train_set_y, batch_size=65)
    sizes = [window_sz, window_sz, n_components]
    factors = [torch.empty(hidden, rank, size) for size in sizes]
    V, b = torch.empty(n_classes, hidden), torch.zeros(n_classes)
    for weights in [*factors, V]:
        torch.nn.init.xavier_uniform_(weights)
    net_mode_0, net_mode_1, net_mode_2 = (types.SimpleNamespace(W=w) for w in factors)
    net_hidden = types.SimpleNamespace(fc1=types.SimpleNamespace(weight=V, bias=b))
    for tensor_epochs in range(50):
        for block in ([factors[0]], [factors[1]], [factors[2]], [V, b]):
            for inputs, labels in batches:
                x, y = torch.from_numpy(inputs), torch.from_numpy(labels)
                for weights in block:
                    weights.requires_grad_(True)
                adam = torch.optim.Adam(block, lr=STEP)
                for _ in range(10):
                    adam.zero_grad()
                    logits = hidden_units(factors, x) @ V.T + b
                    torch.nn.functional.cross_entropy(logits, y).backward()
                    adam.step()
                for weights in block:
                    weights.requires_grad_(False)
        if (tensor_epochs + 1) % 1 == 0:
            print("this would classify the test set")
            raise SystemExit("it must not come here")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "Rank_R_FNN.py"
    path.write_text(STANDIN.replace("STEP", "0.0005"))
    return path


def test_the_same_start_and_batches_give_the_same_weights(script):
    turns = list(run_against(script, TINY, ["rank-1", "rank-2"], 30, epochs=3))
    double = [t for t in turns if t.precision == "float64"]
    assert [(t.model, t.epoch) for t in double] == [
        (m, e) for m in ("rank-1", "rank-2") for e in (1, 2, 3)
    ]
    assert max(t.difference for t in double) < 1e-11
    assert all(t.ours == t.theirs for t in double)
    assert all(t.difference < 1e-2 for t in turns)
    assert all(t.our_seconds > 0 and t.their_seconds > 0 for t in turns)


def test_another_step_is_seen_as_another_network(script):
    script.write_text(STANDIN.replace("STEP", "0.0006"))
    (turn,) = run_against(script, TINY, ["rank-1"], 5, epochs=1, precisions=["float64"])
    assert turn.difference > 1e-4


def test_the_command_writes_a_page_and_every_epoch(script, tmp_path, monkeypatch):
    asked = f"{script} --scene {TINY} --model rank-1 --samples-per-class 5 --epochs 2"
    monkeypatch.setattr(sys, "argv", ["against", *asked.split(), "--out", str(tmp_path / "out")])
    against.main()
    assert "| Rank-1 FNN, float64 | 2 |" in (tmp_path / "out/against.md").read_text()
    turns = load_turns(tmp_path / "out/against.jsonl")
    assert [(t.precision, t.epoch) for t in turns] == [
        (precision, epoch) for precision in ("float64", "float32") for epoch in (1, 2)
    ]


def test_the_published_script_and_ours_came_to_the_same_weights():
    results = Path(__file__).parents[2] / "docs/results"
    turns = load_turns(results / "against.jsonl")
    assert max(t.difference for t in turns if (t.precision, t.epoch) == ("float64", 1)) < 1e-11
    text = (results / "against.md").read_text()
    assert text == render_against(turns, re.search("Made by `(.+?)`", text)[1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("print('hello')", "it has 0 loops over tensor_epochs"),
        ("import no_such_module\nfor tensor_epochs in range(2):\n    pass\n", "no_such_module"),
    ],
)
def test_a_script_of_another_make_is_refused_with_what_it_said(text, words, script):
    script.write_text(text)
    with pytest.raises(InputError, match=words):
        list(run_against(script, TINY, ["rank-1"], 5, epochs=1, precisions=["float64"]))


def test_what_is_no_script_and_no_rank_is_refused(tmp_path, script):
    with pytest.raises(InputError, match="is no file"):
        list(run_against(tmp_path / "missing.py"))
    with pytest.raises(InputError, match="no Rank-R network"):
        list(run_against(script, models=["cnn"]))


@pytest.mark.skipif(
    "POLYAD_AUTHORS" not in os.environ, reason="POLYAD_AUTHORS, the published script, is not set"
)
def test_the_published_script_itself_gives_the_same_weights():
    turns = list(
        run_against(os.environ["POLYAD_AUTHORS"], "indian-pines", ["rank-1", "rank-4"], 10, 2)
    )
    assert max(t.difference for t in turns if t.precision == "float64") < 1e-11
