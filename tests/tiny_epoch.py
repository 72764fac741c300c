"""An epoch of a stream of 900 events, for tests of what is counted on FAST's data sets."""

from functools import cache

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.generate.sessions import SessionStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.study.hooks import fast_epochs as epochs
from chronoscale.harness.study.hooks.fast_epochs import Epoch

BATCH = 64


@cache
def tiny() -> Epoch:
    made = SessionStream(nodes=60, events=900, founders=20, fresh=0.3, hosts=6, active=10, stay=200, lasting=30, skew=0.8)
    return epochs.of("tiny", PreparedStream.of(made.stream(), Protocol()), batch=BATCH)
