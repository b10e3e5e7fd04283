import numpy as np
import pytest

from polyad.scene.read.formats import raw


@pytest.mark.parametrize("gap", [0, 40, 2**14])
@pytest.mark.parametrize(
    "box", [(slice(1, 4), slice(0, 5), slice(7, 9)), (slice(0, 2), slice(2, 3), slice(0, 60))]
)
def test_a_box_is_the_same_however_its_rows_are_read(tmp_path, monkeypatch, gap, box):
    values = np.arange(5 * 6 * 60, dtype=np.uint16).reshape(5, 6, 60)
    path = tmp_path / "scene.img"
    path.write_bytes(b"head" + values.tobytes())
    monkeypatch.setattr(raw, "_GAP_BYTES", gap)
    read = raw.read_box(path, 4, values.shape, values.dtype, box)
    np.testing.assert_array_equal(read, values[box])


def test_short_runs_that_lie_close_are_read_at_once(tmp_path, monkeypatch):
    values = np.arange(3 * 200 * 50, dtype=np.uint16).reshape(3, 200, 50)
    path = tmp_path / "scene.img"
    path.write_bytes(values.tobytes())
    reads, real = [], raw._fill
    monkeypatch.setattr(raw, "_fill", lambda *given: (reads.append(given), real(*given)))
    box = (slice(0, 3), slice(0, 200), slice(4, 9))
    read = raw.read_box(path, 0, values.shape, values.dtype, box)
    np.testing.assert_array_equal(read, values[box])
    assert len(reads) == 3  # one for each line, not one for each of its bands
