"""The model file: bit-identical round trips, and nothing but `ModelFileError` for bad files."""

import hashlib
import json
import pickle
import struct
import subprocess
import sys
import zipfile
from dataclasses import fields
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from polyad import ModeStandardScaler, RankRClassifier, RankRRegressor, load, save
from polyad.core.network import ACTIVATIONS
from polyad.errors import InputError, ModelFileError
from polyad.estimators import persistence
from polyad.estimators.file_format import FORMAT, ActivationName, ClassifierHeader, Epochwise
from polyad.estimators.persistence import load_with_about
from polyad.fitting.epochs import History
from tests.waiting import PATIENCE

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2, 3, 4))
QUICK = {"hidden": 4, "epochs": 3, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return RankRClassifier(rank=2, **QUICK).fit(X, np.arange(24) % 3)


def reload(model, folder):
    """Save a model and return what is loaded."""
    save(model, folder / "m.polyad")
    return load(folder / "m.polyad")


@pytest.fixture
def path(fitted, tmp_path):
    file = tmp_path / "model.polyad"
    save(fitted, file, about={"scene": "made"})
    return file


# -- round trips ------------------------------------------------------------------------------

LABELS = {
    "int": np.array([3, 10, -7]),
    "int8": np.array([3, 10, -7], dtype=np.int8),
    "uint16": np.array([0, 1, 65535], dtype=np.uint16),
    "str": np.array(["water", "soil", "été 草"]),
    "object": np.array(["water", "soil", "tree"], dtype=object),
    "float": np.array([1.0, 2.0, -3.0]),
    "bool": np.array([True, False, True]),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classifier_comes_back_bit_for_bit(kind, dtype, tmp_path):
    x, y = X.astype(dtype), LABELS[kind][np.arange(24) % 3]
    model = RankRClassifier(rank=2, **QUICK).fit(x, y)
    again = reload(model, tmp_path)
    assert again.classes_.dtype.kind == model.classes_.dtype.kind
    assert list(map(type, again.classes_.tolist())) == list(map(type, model.classes_.tolist()))
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(again, method)(x), getattr(model, method)(x))
    assert again.predict_proba(x).dtype == model.predict_proba(x).dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("targets", [(), (1,), (3,)])
def test_regressor_comes_back_bit_for_bit(dtype, targets, tmp_path):
    x, y = X.astype(dtype), RNG.normal(5, 3, size=(24, *targets))
    model = RankRRegressor(**QUICK).fit(x, y)
    again = reload(model, tmp_path)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert again.predict(x).shape == y.shape


@pytest.mark.parametrize(
    "settings",
    [
        {"standardize": None},
        {"standardize": 0},
        {"hidden_bias": False, "activation": "relu"},
        {"solver": "alternating", "start": "xavier"},
        {"class_weight": "balanced"},
        {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}},
        {"class_weight": {np.int64(0): 1, np.int64(1): 2, np.int64(2): 3}},
        {"early_stopping": True, "validation_fraction": 0.25},
        {"rank": np.int64(2), "hidden": np.int32(4), "random_state": np.int64(5)},
        {"learning_rate": np.float32(0.01), "batch_size": None, "patience": None},
    ],
)
def test_every_setting_and_the_history_come_back(settings, tmp_path):
    model = RankRClassifier(**(QUICK | settings)).fit(X, np.arange(24) % 3)
    save(model, tmp_path / "m.polyad")
    again = load(tmp_path / "m.polyad")
    assert again.get_params() == model.get_params()
    assert again.history_ == model.history_
    assert again.n_iter_ == model.n_iter_
    assert again.sample_shape_ == model.sample_shape_
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_random_state_object_is_left_out_and_the_rest_kept(tmp_path):
    model = RankRClassifier(**(QUICK | {"random_state": np.random.RandomState(0)}))
    assert reload(model.fit(X, np.arange(24) % 3), tmp_path).random_state is None


def test_about_travels_with_the_model(fitted, tmp_path):
    about = {"wavelengths": [400.5, 410.0], "names": {"1": "été"}, "n": None}
    save(fitted, tmp_path / "m.polyad", about=about)
    assert load_with_about(tmp_path / "m.polyad")[1] == about


def test_feature_names_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X.reshape(24, -1)[:, :3], columns=["a", "b", "c"])
    model = RankRClassifier(**QUICK).fit(frame, np.arange(24) % 3)
    assert reload(model, tmp_path).feature_names_in_.tolist() == ["a", "b", "c"]


def test_a_header_of_any_length_is_read(fitted, tmp_path):
    """The first two bytes are a length: it may begin as a pickle or an archive does."""
    seen = set()
    for extra in range(0, 400, 8):
        save(fitted, tmp_path / "m.polyad", about={"pad": "x" * extra})
        seen.add((tmp_path / "m.polyad").read_bytes()[0])
        load(tmp_path / "m.polyad")
    assert 0x80 in seen


# -- what save refuses ------------------------------------------------------------------------


def test_save_refuses_what_is_no_model_of_ours(tmp_path):
    with pytest.raises(InputError, match=r"save wants one of .*got ModeStandardScaler.*joblib"):
        save(ModeStandardScaler().fit(X), tmp_path / "m.polyad")


def test_save_refuses_an_unfitted_model(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        save(RankRClassifier(), tmp_path / "m.polyad")
    assert list(tmp_path.iterdir()) == []


def test_save_refuses_an_about_that_json_cannot_hold(fitted, tmp_path):
    with pytest.raises(InputError, match="about must hold what JSON can"):
        save(fitted, tmp_path / "m.polyad", about={"when": object()})


def test_save_refuses_classes_that_are_no_simple_values(tmp_path):
    days = np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]")
    model = RankRClassifier(**QUICK).fit(X, np.arange(24) % 2)
    model.classes_ = days
    with pytest.raises(InputError, match="use strings"):
        save(model, tmp_path / "m.polyad")
    model.classes_ = np.array([(1, 2), "b"], dtype=object)
    with pytest.raises(InputError, match="numbers and strings only"):
        save(model, tmp_path / "m.polyad")


def test_a_save_that_fails_half_way_leaves_the_old_file(fitted, path, monkeypatch):
    before = path.read_bytes()

    def half(tensors, metadata):
        raise KeyboardInterrupt

    monkeypatch.setattr(persistence, "to_bytes", half)
    with pytest.raises(KeyboardInterrupt):
        save(fitted, path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


# -- damaged files ----------------------------------------------------------------------------


def refused(path, content, match=None):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=match):
        load(path)


def test_a_truncated_file_is_refused_at_every_length(path):
    whole = path.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    lengths = {*range(1, 40), *range(40, header, 29), *range(header, len(whole), 37)}
    for length in sorted(lengths | {header - 1, header, len(whole) - 1}):
        refused(path, whole[:length])


def test_a_file_with_more_at_its_end_or_a_huge_header_is_refused(path):
    whole = path.read_bytes()
    refused(path, whole + b"more")
    refused(path, struct.pack("<Q", 2**62) + whole[8:])


def test_a_flipped_byte_is_refused_wherever_it_is(path):
    whole = path.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    rng = np.random.default_rng(1)
    places = [*range(16), *range(16, header, 7), *range(header, len(whole), 31)]
    harmless = 0
    for place in places:
        flip = bytearray(whole)
        flip[place] ^= int(rng.integers(1, 256))
        if _same_model(whole, bytes(flip)):
            harmless += 1  # a space of the padding, say
            continue
        refused(path, bytes(flip))
    assert harmless < 0.05 * len(places)


def test_a_flipped_bit_in_the_weights_says_checksum(path):
    flip = bytearray(path.read_bytes())
    flip[-1] ^= 1
    refused(path, bytes(flip), match="do not match their checksum")


def _same_model(first, second):
    """Tell whether two files hold the same header, spaces aside, and the same data."""

    def header_and_data(content):
        size = struct.unpack("<Q", content[:8])[0]
        return json.loads(content[8 : 8 + size]), content[8 + size :]

    try:
        return header_and_data(first) == header_and_data(second)
    except (ValueError, OverflowError, MemoryError, RecursionError):
        return False


# -- inconsistent files: everything below carries a valid checksum -------------------------------


def forge(path, change=None, tensors=None, raw=None):
    """Rewrite the file with a changed header or other tensors, and the checksum to match."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as content:
        header = json.loads(content.metadata()["polyad"])
    weights = load_file(path)
    if change is not None:
        header = change(header) or header
    if tensors is not None:
        tensors(weights)
    text = json.dumps(header, sort_keys=True) if raw is None else raw
    digest = hashlib.sha256(text.encode())
    for name in sorted(weights):
        tensor = weights[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.view(torch.uint8).numpy().tobytes())
    save_file(weights, path, {"polyad": text, "sha256": digest.hexdigest()})


def setter(*keys, value):
    def change(header):
        place = header
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


def test_forged_files_carry_a_valid_checksum(path, fitted):
    forge(path)
    np.testing.assert_array_equal(load(path).predict_proba(X), fitted.predict_proba(X))


LIES = {
    "shape": setter("network", "in_shape", value=[2, 3, 5]),
    "order": setter("network", "in_shape", value=[2, 3]),
    "hidden": setter("network", "hidden", value=5),
    "rank": setter("network", "rank", value=1),
    "outputs": setter("network", "n_outputs", value=2),
    "activation": setter("network", "activation", value="eval"),
    "bias": setter("network", "hidden_bias", value=False),
    "start": setter("network", "start", value="nowhere"),
    "dtype": setter("network", "dtype", value="float32"),
    "extra setting": setter("network", "device", value="cuda"),
    "too few classes": setter("classes", "values", value=[0, 1]),
    "same class twice": setter("classes", "values", value=[0, 1, 1]),
    "nested classes": setter("classes", "values", value=[[0], [1], [2]]),
    "class out of range": setter("classes", value={"dtype": "|u1", "values": [0, 1, 300]}),
    "class type": setter("classes", "dtype", value="V100000000"),
    "mode": setter("scaler_mode", value=9),
    "kind": setter("kind", value="Pipeline"),
    "wrong kind": setter("kind", value="RankRRegressor"),
    "parameters": setter("parameters", value={"nonsense": 1}),
    "class weight": setter("parameters", "class_weight", value=[[[1], 2]]),
    "history": setter("history", value={"loss": 3}),
    "about": setter("about", value=7),
    "format": setter("format", value=None),
    "header is a list": lambda header: [header],
    "header is empty": lambda header: {"format": 1},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused(lie, path):
    forge(path, LIES[lie])
    with pytest.raises(ModelFileError, match=r"model\.polyad"):
        load(path)


def without(key):
    return lambda header: {k: v for k, v in header.items() if k != key}


def filled(name, value):
    return lambda tensors: tensors[name].view(-1)[-1:].fill_(value)


def of_type(dtype):
    return lambda t: t.update({"scaler.mean": t["scaler.mean"].to(dtype)})


NOT_FINITE = ["network.output.weight", "network.hidden.bias", "scaler.mean"]
FORGED = [
    ({"change": LIES["shape"]}, r"'network.hidden.factors.2' should be \(4, 2, 5\)"),
    *(
        ({"change": without(key)}, key)
        for key in ("kind", "parameters", "network", "classes", "history", "about")
    ),
    (
        {"change": setter("format", value=FORMAT + 1)},
        f"model format {FORMAT + 1}, this polyad reads up to {FORMAT}; upgrade polyad$",
    ),
    (
        {"change": setter("format", value=FORMAT - 1)},
        f"model format {FORMAT - 1}, this polyad reads {FORMAT}; train it again$",
    ),
    *(
        ({"tensors": filled(name, value)}, f"{name}.* holds NaN or infinite")
        for name in NOT_FINITE
        for value in (float("nan"), float("inf"))
    ),
    ({"tensors": lambda t: t["scaler.scale"].zero_()}, "not above 0"),
    (
        {"tensors": lambda t: t.pop("network.output.bias")},
        r"lacks the tensor 'network.output.bias'",
    ),
    *(
        ({"tensors": of_type(dtype)}, r"scaler.mean.* of F64 by the header")
        for dtype in (torch.bfloat16, torch.float16, torch.int64, torch.bool)
    ),
    *(
        ({"raw": raw}, "not JSON of ours")
        for raw in ("", "null", "[", "[" * 100_000, "1" * 5000, '{"format": 1e999}')
    ),
]


@pytest.mark.every_case
@pytest.mark.parametrize(("forged", "message"), FORGED, ids=range(len(FORGED)))
def test_a_forged_file_is_refused_with_what_is_wrong(forged, message, path):
    forge(path, **forged)
    with pytest.raises(ModelFileError, match=message):
        load(path)


HUGE = {
    "hidden": setter("network", "hidden", value=10**9),
    "rank": setter("network", "rank", value=10**9),
    "shape": setter("network", "in_shape", value=[10**9] * 3),
    "beyond any integer": setter("network", "in_shape", value=[10**30] * 3),
    "modes": setter("network", "in_shape", value=[1] * 10**5),
    "outputs": setter("network", "n_outputs", value=10**12),
}


@pytest.mark.parametrize("claim", HUGE)
def test_a_huge_claim_takes_no_memory(claim, path):
    resource = pytest.importorskip("resource")
    forge(path, HUGE[claim])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError, match=r"by the header|not a valid polyad model"):
        load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_a_huge_claim_about_class_names_takes_no_memory(path):
    resource = pytest.importorskip("resource")
    forge(path, setter("classes", value={"dtype": "<U500000000", "values": ["a", "b", "c"]}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert load(path).classes_.tolist() == ["a", "b", "c"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_tensor_said_to_be_larger_than_the_file_is_refused(path):
    entry = {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}
    header = json.dumps({"__metadata__": {"polyad": "{}"}, "a": entry}).encode()
    refused(path, struct.pack("<Q", len(header)) + header, match="truncated, damaged")


# -- other files ------------------------------------------------------------------------------


class Bomb:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a model file was unpickled",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_is_never_opened(protocol, tmp_path):
    match = "pickle or an archive, which polyad never opens" if protocol > 1 else None
    refused(tmp_path / "m.polyad", pickle.dumps([Bomb()], protocol), match)


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", pickle.dumps(Bomb()))


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: torch.save([Bomb()], path), "pickle or an archive"),
        (zipped, "pickle or an archive"),
        (lambda path: path.touch(), r"is empty \(0 bytes\)"),
        (lambda path: None, r"m\.polyad cannot be read: .* check the path"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (
            lambda path: save_file({"a": torch.zeros(2)}, path, {"format": "pt"}),
            "but not one that polyad wrote",
        ),
    ],
)
def test_what_is_no_model_file_is_refused_with_what_it_is(write, message, tmp_path):
    write(tmp_path / "m.polyad")
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "m.polyad")


def test_names_in_the_header_are_those_of_the_network_and_its_history():
    assert tuple(ACTIVATIONS) == get_args(ActivationName)
    assert [f.name for f in fields(History)] == [*Epochwise.model_fields]
    assert {*RankRClassifier().get_params()} == {
        *ClassifierHeader.model_fields["parameters"].annotation.model_fields
    }


def test_a_file_is_described_without_torch(path):
    code = """
import sys
from polyad.estimators.file_format import read_model
header, tensors = read_model(sys.argv[1])
print(header.kind, header.about, len(tensors), "torch" in sys.modules)
"""
    words = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout == "RankRClassifier {'scene': 'made'} 8 False\n"
