"""The waits of nodes between their events, against loops over events."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stream_search import NODES, sources

from chronoscale.batching.streams import event_gaps as module
from chronoscale.batching.streams.event_gaps import measure_event_gaps


@given(sources, st.integers(0, 45), st.sampled_from([1, 2, 7, 1 << 20]))
def test_waits_between_events_of_a_node(source, events, block):
    stream, gaps = source.stream, []
    for node in range(NODES):
        own = [e for e in range(min(events, len(stream))) if node in (stream.src[e], stream.dst[e])]
        gaps += [float(stream.t[later] - stream.t[earlier]) for earlier, later in pairwise(own)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        mean, deviation = measure_event_gaps(source, events)
    assert mean == pytest.approx(np.mean(gaps) if gaps else 0, rel=1e-9)
    assert deviation == pytest.approx(np.std(gaps) if gaps else 0, rel=1e-6, abs=1e-6)
