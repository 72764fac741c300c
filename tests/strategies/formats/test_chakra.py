"""Execution traces of Chakra: ours give back what was written, others' can be replayed, spoilt ones are refused in a line."""

import gzip
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from chakra_oracle import proto
from hypothesis import given
from hypothesis import strategies as st
from notation import NsCosts, gpus, write
from profiles import examples
from recordings import recording

from chronoscale.errors import UserError
from chronoscale.simulator.engine import replay
from chronoscale.strategies.evaluation.fifos import previous_in_fifo
from chronoscale.strategies.formats.chakra import messages as chakra
from chronoscale.strategies.formats.chakra import reader as chakra_reader
from chronoscale.strategies.formats.chakra import writer as chakra_writer
from chronoscale.strategies.formats.chakra.attribute import attribute
from chronoscale.strategies.formats.chakra.messages import CommType, Node, NodeType
from chronoscale.strategies.formats.chakra.wire import varint
from chronoscale.strategies.schedule import COLLECTIVES, Lane, Op, Schedule
from chronoscale.strategies.trace import Source, Trace

ALONE = tuple((lane,) for lane in Lane)
FUSED = (tuple(Lane),)


def same(one, other) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))


def messages(path):
    """As Google's library reads a file."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        size, shift = 0, 0
        while True:
            byte, at = data[at], at + 1
            size, shift = size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        found.append((proto.Node if found else proto.GlobalMetadata).FromString(data[at : at + size]))
        at += size
    return found


def attributes(node) -> dict[str, object]:
    return {one.name: getattr(one, one.WhichOneof("value")) for one in node.attr}


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([ALONE, FUSED]))
def test_what_was_written_is_read_again(tmp_path_factory, seed, ranks, streams):
    folder = tmp_path_factory.mktemp("traces")
    schedule, trace = recording(seed, ranks)
    paths = chakra_writer.write(trace, schedule, streams, folder, "job")
    assert [path.name for path in paths] == [f"job.{rank}.et" for rank in range(ranks)]
    found = chakra_reader.read(paths[::-1])
    assert (
        same(found.schedule, schedule) and same(found.trace, trace) and found.prior.tolist() == previous_in_fifo(schedule, streams).tolist()
    )


def test_nodes_are_what_chakra_says(tmp_path):
    schedule, trace = recording(3, 3, 60)
    paths = chakra_writer.write(trace, schedule, ALONE, tmp_path, "job")
    groups, seen = chakra_writer.process_groups(schedule), 0
    last: dict[tuple[int, int], int] = {}
    for rank, path in enumerate(paths):
        head, *nodes = messages(path)
        assert head.version == chakra.VERSION and attributes(head)["ranks"] == 3
        for node in nodes:
            seen, row, said = seen + 1, int(node.id), attributes(node)
            op, lane = Op(schedule.op[row]), int(schedule.lane[row])
            assert (node.name, schedule.rank[row], said["lane"], said["is_cpu_op"]) == (op.name, rank, Lane(lane).name, lane == Lane.HOST)
            assert node.duration_micros == round(trace.duration_ns[row] / 1000) and node.start_time_micros == trace.start_ns[row] // 1000
            assert list(node.data_deps) == [dep for dep in schedule.dependencies(row) if schedule.rank[dep] == rank]
            assert list(node.ctrl_deps) == ([last[rank, lane]] if (rank, lane) in last else [])
            last[rank, lane] = row
            assert said.get("num_ops", 0) == schedule.flops[row]
            assert said.get("comm_size" if op in COLLECTIVES else "tensor_size", 0) == schedule.bytes[row]
            if op in COLLECTIVES:
                meets = sorted(schedule.rank[schedule.collective == schedule.collective[row]].tolist())
                if op in (Op.SEND, Op.RECV):
                    assert node.type == (NodeType.COMM_SEND if op is Op.SEND else NodeType.COMM_RECV)
                    assert (
                        said["comm_src" if op is Op.SEND else "comm_dst"] == rank and sorted((said["comm_src"], said["comm_dst"])) == meets
                    )
                else:
                    assert node.type == NodeType.COMM_COLL and groups[said["pg_name"]] == meets
                    assert CommType(said["comm_type"]).name.replace("_", "") == op.name
            else:
                assert node.type in (NodeType.COMP, NodeType.MEM_LOAD, NodeType.MEM_STORE)
    assert seen == len(schedule)


def test_lanes_that_share_a_fifo_wait_for_one_another(tmp_path):
    schedule = write("a: H2D@H2D\nb: BACKWARD@COMPUTE\nc: H2D@H2D").schedule
    trace = Trace.of(schedule, *np.array([[0, 1, 2], [1, 2, 3]]), np.zeros(3, np.uint8), "d")
    for streams, expected in ((ALONE, [(), (), (0,)]), (FUSED, [(), (0,), (1,)])):
        path = chakra_writer.write(trace, schedule, streams, tmp_path, "x")
        assert [node.ctrl_deps for node in chakra.read(path[0])[1]] == expected


def test_a_part_of_a_trace_is_not_written(tmp_path):
    schedule, trace = recording(1)
    with pytest.raises(ValueError, match="a Chakra trace needs every row of its schedule"):
        chakra_writer.write(trace.take(np.arange(3)), schedule, ALONE, tmp_path, "x")


def test_metadata_and_nodes_of_google_are_read(tmp_path):
    node = proto.Node(id=1 << 40, name="é", type=7, ctrl_deps=[3, 300], data_deps=[], start_time_micros=5, duration_micros=6)
    node.inputs.values = "[1]"
    node.attr.add(name="doc", doc_string="no value")
    node.attr.add(name="comm_size", uint64_val=1 << 50)
    parts = [proto.GlobalMetadata(version="0.0.4").SerializeToString(), node.SerializeToString()]
    path = tmp_path / "x.et"
    for data in (joined(parts), gzip.compress(joined(parts))):
        path.write_bytes(data)
        assert chakra.read(path) == ({}, [Node(1 << 40, "é", 7, (3, 300), (), 5, 6, {"comm_size": 1 << 50})])


def joined(parts: list[bytes]) -> bytes:
    return b"".join(varint(len(part)) + part for part in parts)


def foreign(folder, *ranks: list[Node]):
    """Files of another tool, one a rank."""
    paths = []
    for rank, nodes in enumerate(ranks):
        paths.append(folder / f"model.{rank}.et")
        kinds = {bool: "bool", int: "uint64", str: "string"}
        coded = [chakra.encode_node(node, [attribute(name, kinds[type(v)], v) for name, v in node.attributes.items()]) for node in nodes]
        paths[-1].write_bytes(joined([chakra.encode_metadata([]), *coded]))
    return paths


def device(number: int, us: int, *deps: int, **more: object) -> Node:
    return Node(number, f"op{number}", NodeType.COMP, (), deps, 0, us, {"is_cpu_op": False, **more})


def meets(number: int, *deps: int, kind: CommType = CommType.ALL_REDUCE, size: int = 4000, **more: object) -> Node:
    return Node(number, kind.name, NodeType.COMM_COLL, deps, (), 0, 1, {"comm_type": int(kind), "comm_size": size, **more})


def test_a_trace_of_another_tool_is_replayed_by_hand(tmp_path):
    """10 µs beside 30, then an all-reduce of 4,000 bytes at 1 B/ns between two ranks (2 (P-1)/P of them), then 5 µs."""
    paths = foreign(tmp_path, *([device(7, us), meets(3, 7), device(5, 5, 3)] for us in (10, 30)))
    recording = chakra_reader.read(paths)
    schedule, trace, costs = recording.schedule, recording.trace, recording.costs
    assert (schedule.kind, schedule.ranks, schedule.name) == ("modelled", 2, "model")
    assert [Op(op).name for op in schedule.op] == ["COMPUTE", "ALLREDUCE", "COMPUTE"] * 2
    assert trace.duration_ns.tolist() == [10_000, 1000, 5000, 30_000, 1000, 5000] and set(trace.source) == {Source.PUBLISHED}
    found = replay(schedule, gpus(2), costs)
    assert found.start_ns.tolist() == [0, 30_000, 34_000] * 2 and found.span_ns == 39_000
    assert found.device.endswith("costs: recorded on as traced in model.0.et")
    memory, sms = costs.occupies(schedule, np.arange(4), np.ones(4, np.int64))
    assert memory.tolist() == sms.tolist() == [0.0] * 4
    with pytest.raises(UserError, match="durations of the rows of 'model', and of no other schedule"):
        costs.predict(schedule.take(np.arange(3)), np.arange(3))


@examples(25)
@given(st.integers(0, 10**6), st.sampled_from([ALONE, FUSED]), st.sampled_from([0, 5]))
def test_a_replay_where_it_was_recorded_is_the_recording(tmp_path_factory, seed, streams, launch_ns):
    """Launches and all; but for the gaps before collectives, which are the network's."""
    schedule, _ = recording(seed, 3)
    schedule = replace(schedule, kernels=np.where(schedule.collective < 0, schedule.kernels, 0))
    cluster = gpus(3, streams=streams)
    trace = replay(schedule, cluster, NsCosts(launch_ns))
    found = chakra_reader.read(chakra_writer.write(trace, schedule, streams, tmp_path_factory.mktemp("traces"), "job"))
    again = found.costs.without_gaps(schedule, replay(found.schedule, cluster, found.costs))
    zero = trace.start_ns.min() if len(trace) else 0
    assert np.array_equal(again.start_ns, trace.start_ns - zero) and np.array_equal(again.end_ns, trace.end_ns - zero)


def test_messages_loads_and_process_groups(tmp_path):
    load = Node(0, "weights", NodeType.MEM_LOAD, (), (), 0, 2, {"tensor_size": 64})
    ends = {"comm_src": 1, "comm_dst": 0, "comm_tag": 5, "comm_size": 8}
    shared = [meets(4, kind=CommType.REDUCE_SCATTER, size=600, pg_name="tp"), meets(5, pg_name="dp")]
    paths = foreign(
        tmp_path,
        [load, Node(1, "recv", NodeType.COMM_RECV, (), (), 0, 1, ends), *shared],
        [Node(1, "send", NodeType.COMM_SEND, (), (), 0, 1, ends), Node(2, "store", NodeType.MEM_STORE), *shared],
        [meets(4, kind=CommType.REDUCE_SCATTER, size=600, pg_name="tp"), Node(9, "python", NodeType.COMP)],
    )
    schedule = chakra_reader.read(paths).schedule
    row = {(int(rank), Op(op).name): i for i, (rank, op) in enumerate(zip(schedule.rank, schedule.op, strict=True))}
    column = schedule.collective
    assert column[row[0, "RECV"]] == column[row[1, "SEND"]] >= 0 and column[row[0, "H2D"]] == column[row[1, "D2H"]] == -1
    assert len({int(column[row[rank, "ALLGATHER"]]) for rank in range(3)}) == 1 and schedule.bytes[row[2, "ALLGATHER"]] == 200
    assert column[row[0, "ALLREDUCE"]] == column[row[1, "ALLREDUCE"]] != column[row[0, "ALLGATHER"]]
    assert schedule.lane[row[2, "COMPUTE"]] == Lane.HOST and schedule.bytes[row[0, "H2D"]] == 64


@examples(40)
@given(st.integers(0, 10**6))
def test_rows_come_after_all_that_they_wait_for(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(100)[:12].tolist()
    deps = [[dep for dep in ids[:i] if rng.random() < 0.3] for i in range(12)]
    nodes = [device(number, int(rng.integers(9)), *found) for number, found in zip(ids, deps, strict=True)]
    rng.shuffle(nodes)  # type: ignore[arg-type]
    folder = tmp_path_factory.mktemp("foreign")
    found = chakra_reader.read(foreign(folder, nodes))
    assert len(found.schedule.dep) == sum(map(len, deps))  # that they lead to earlier rows is the schedule's own check
    alone = replay(found.schedule, gpus(1), found.costs)
    assert alone.span_ns == sum(node.duration_us for node in nodes) * 1000  # one FIFO


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([[device(1, 1, 2)]], "/model.0.et, node 1 (op1): waits for node 2, which is not in the file"),
        ([[device(1, 1, 1)]], "/model.0.et, node 1 (op1): waits for itself, by others"),
        ([[device(1, 1, 2), device(2, 1, 1)]], "/model.0.et, node 1 (op1): waits for itself, by others"),
        ([[device(1, 1), device(1, 1)]], "/model.0.et: two nodes have id 1"),
        ([[Node(1, "x", 0)]], "/model.0.et, node 1 (x): type 0 is no type of a node"),
        ([[Node(1, "x", 99)]], "/model.0.et, node 1 (x): type 99 is no type of a node"),
        ([[device(1, 1 << 60)]], "/model.0.et, node 1 (op1): duration of 1152921504606846976 µs"),
        ([[device(1, 1, num_ops="many")]], "/model.0.et, node 1 (op1): num_ops is 'many', expected a number from 0"),
        (
            [[meets(1, kind=CommType.BROADCAST)]],
            "/model.0.et, node 1 (BROADCAST): comm_type BROADCAST is not modelled; known: ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, BARRIER, "
            "REDUCE_SCATTER, REDUCE_SCATTER_BLOCK",
        ),
        (
            [[meets(1), meets(2)], [meets(1)]],
            "/model.0.et, node 2 (ALL_REDUCE): rank 1 does not take part, and did before in process group ''",
        ),
        (
            [[meets(1)], [meets(1, kind=CommType.ALL_GATHER)]],
            "/model.1.et, node 1 (ALL_GATHER): comm_type 2 meets 0 in {folder}/model.0.et",
        ),
        (
            [[Node(1, "s", NodeType.COMM_SEND, attributes={"comm_src": 0, "comm_dst": 1, "comm_tag": 4})], []],
            "/model.0.et, node 1 (s): no RECV of message 0 1 4 (source, destination, tag)",
        ),
        (
            [[Node(1, "r", NodeType.COMM_RECV, attributes={"comm_src": 0, "comm_dst": 1})], []],
            "/model.0.et, node 1 (r): comm_dst is 1, and the file rank 0's",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_node(tmp_path, ranks, said):
    with pytest.raises(UserError) as found:
        chakra_reader.read(foreign(tmp_path, *ranks))
    assert str(found.value) == f"{tmp_path}{said.format(folder=tmp_path)}"


def test_files_that_are_none_or_cut_off_are_refused_with_their_byte(tmp_path):
    paths = chakra_writer.write(*recording(5, 1)[::-1], ALONE, tmp_path, "job")
    whole = paths[0].read_bytes()
    size = len(messages(paths[0])[-1].SerializeToString())
    at = len(whole) - size - len(varint(size))  # where the last message begins
    spoilt = tmp_path / "spoilt.0.et"
    for data, said in (
        (b"", "no Chakra trace, or cut off: byte 0: no messages, a trace begins with its metadata"),
        (whole[:-1], f"no Chakra trace, or cut off: byte {at:,}: a message of {size:,} bytes, {size - 1:,} are left"),
        (b"PK\x03\x04 a zip file", "no Chakra trace, or cut off: byte 0: a message of 80 bytes, 14 are left"),
        (gzip.compress(whole)[:-9], "not readable: Compressed file ended before the end-of-stream marker was reached"),
    ):
        spoilt.write_bytes(data)
        with pytest.raises(UserError) as found:
            chakra_reader.read([spoilt])
        assert str(found.value).startswith(f"{spoilt}: {said}")
    with pytest.raises(UserError, match="no such file, a Chakra trace is expected"):
        chakra_reader.read([tmp_path / "none.et"])


@given(st.integers(0, 3000), st.integers(0, 255), st.booleans())
def test_a_spoilt_byte_is_read_or_refused_in_a_line(spoil, at, byte, cut):
    data = bytearray(spoil.read_bytes())
    other = spoil.with_name("other.0.et")
    data[at % len(data)] = byte
    other.write_bytes(bytes(data[: at % len(data)] if cut else data))
    try:
        chakra_reader.read([other])
    except UserError as error:
        assert str(error).startswith(str(other.parent)) and "\n" not in str(error)


@pytest.fixture(scope="module")
def spoil(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spoil")
    return chakra_writer.write(*recording(8, 1, 12)[::-1], ALONE, folder, "job")[0]


def test_ranks_have_to_fit_together(tmp_path):
    schedule, trace = recording(2, 3)
    job, other = (chakra_writer.write(trace, replace(schedule, name=name), ALONE, tmp_path, name) for name in ("job", "other"))
    theirs = foreign(tmp_path, [], [], [])
    for paths, said in (
        (job[:2], f"{job[0]}: one of 3 ranks of 'job', and 2 files are named"),
        ([*job[:2], other[2]], f"{other[2]}: of another job than {job[0]}"),
        ([job[0], job[1], job[1]], f"{job[0]}: two files are of one rank"),
        ([*job[:2], theirs[2]], f"{theirs[2]}: not written by chronoscale, as {job[0]} is; name the files of one job"),
        ([theirs[0], theirs[2]], f"{tmp_path}: no file of rank 1, and one of rank 2"),
        ([theirs[0], theirs[0]], f"{theirs[0]}: rank 0 is {theirs[0]}, too"),
        ([], "a Chakra trace needs a file for every rank, got none"),
    ):
        with pytest.raises(UserError) as found:
            chakra_reader.read(paths)
        assert str(found.value) == said
    unnamed = [theirs[i].rename(tmp_path / name) for i, name in enumerate(("a.et", "b.et"))]
    with pytest.raises(UserError, match=r"a.et: which rank's\? A trace of several ranks is named for them, as model.3.et"):
        chakra_reader.read(unnamed)
    assert len(chakra_reader.read(unnamed[:1]).schedule) == 0 and math.isfinite(chakra_reader.read(unnamed[:1]).trace.span_ns)


def test_an_empty_schedule_is_a_trace_without_nodes(tmp_path):
    schedule: Schedule = write("a: BACKWARD@COMPUTE").schedule.take(np.zeros(0, np.int64))
    trace = Trace.of(schedule, *np.zeros((2, 0), np.int64), np.zeros(0, np.uint8), "d")
    found = chakra_reader.read(chakra_writer.write(trace, schedule, ALONE, tmp_path, "x"))
    assert same(found.schedule, schedule) and same(found.trace, trace)
