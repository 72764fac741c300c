"""Who gets the mails of an iteration's events, against the definition."""

from hypothesis import given
from hypothesis import strategies as st
from stream_search import earlier, sources

from chronoscale.batching.streams.ranks.delivery import deliver_mail


@given(sources, st.data(), st.integers(0, 4))
def test_mails_go_to_ends_and_to_their_latest_neighbours(source, data, fanout):
    stream = source.stream
    begin = data.draw(st.integers(0, len(stream) - 1))
    whole = range(begin, data.draw(st.integers(begin + 1, len(stream))))
    expected = set()
    for event in whole:
        for end in (int(stream.src[event]), int(stream.dst[event])):
            before = earlier(stream, end, 0, begin)  # not those of the iteration itself
            expected |= {(node, event) for node in (end, *(other for other, _ in before[max(len(before) - fanout, 0) :]))}
    found = deliver_mail(source, whole, fanout)
    assert list(zip(found.nodes[found.to].tolist(), found.event.tolist(), strict=True)) == sorted(expected)
    assert found.nodes.tolist() == sorted({node for node, _ in expected})
