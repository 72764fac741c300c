"""Labels that classification cannot be trained on are one line that names the dataset."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from chronoscale.datasets.formats.registry import open_dataset
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.labels import require_labels
from chronoscale.errors import UserError


def stream(labels: list[int] | None) -> EventStream:
    ids = np.zeros(3, np.int32)
    return EventStream(1, ids, ids, np.arange(3), labels=None if labels is None else np.array(labels), name="talk")


def test_labels_are_handed_on() -> None:
    assert_array_equal(require_labels(stream([0, 2, 0])), [0, 2, 0])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, r"^dataset 'talk' has no labels of events, which node classification needs: its files hold none$"),
        ([0, -1, 1], r"^dataset 'talk': label -1 of event 1 is below 0$"),
        ([1, 1, 1], r"^dataset 'talk': every event has the label 1, and node classification needs two classes or more$"),
    ],
)
def test_what_is_missing_is_told(labels: list[int] | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        require_labels(stream(labels))


def test_labels_that_a_reader_has_left_out_are_named(tmp_path) -> None:
    folder = tmp_path / "GDELT"
    folder.mkdir()
    (folder / "edges.csv").write_text(",src,dst,time\n0,1,2,5\n1,2,1,6\n")
    (folder / "labels.csv").write_text(",node,time,label\n0,1,5,1\n")
    with pytest.raises(UserError, match=r"dataset 'GDELT' has no labels of events.*: 1 in labels\.csv, not one for each source and time"):
        require_labels(open_dataset(folder))
