"""Whether ranks move: their positions, and what a watch with a clock of its own makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.membership import Membership
from chronoscale.real_exec.ranks.positions import Phase, Position, PositionPage
from chronoscale.real_exec.ranks.supervision import Patience, ProcessState, Watch
from chronoscale.strategies.schedule import Lane, Op


def task(row: int, op: Op = Op.COMPUTE, lane: Lane = Lane.COMPUTE) -> Task:
    return Task(row, op, lane, 0, 0, 0, 0, 0, ())


class Scene:
    """Ranks whose positions a test writes, watched by a clock that it sets."""

    def __init__(self, folder: Path, ranks: int, patience: Patience, first: int | None = None) -> None:
        self.now, self.ended = 0.0, dict[int, int]()
        self.processes = [ProcessState(0.0, False) for _ in range(ranks)]
        positions.make_file(folder, ranks)
        self.pages = positions.pages(folder, ranks)
        self.watch = Watch(self.pages, range(ranks), patience, lambda: self.now, lambda pid: self.processes[pid], first)

    def begin(self, *ranks: int) -> None:
        for rank in ranks:
            self.pages[rank].enter_pass("a schedule")

    def at(self, rank: int, row: int, op: Op = Op.COMPUTE) -> None:
        """Leave the rank in a row."""

        class Stay(Exception):
            pass

        def run(task: Task) -> None:
            raise Stay

        with pytest.raises(Stay):
            self.pages[rank].record_rows(run)(task(row, op))

    def compute(self, *ranks: int) -> None:
        """A second of it."""
        for rank in ranks:
            self.processes[rank] = ProcessState(self.processes[rank].busy_s + 1.0, False)

    def after(self, seconds: float) -> str:
        """Look once a second, and say what hangs."""
        for _ in range(int(seconds)):
            self.now += 1
            self.report = self.watch.look(self.ended)
        return self.watch.hung


def test_a_rank_that_waits_for_other_machines_does_not_hang(tmp_path: Path) -> None:
    """Those are watched there; one that is stopped, or computes for too long, hangs here, by its number in the whole job."""
    scene = Scene(tmp_path, 1, Patience(seconds=5.0), first=3)
    scene.begin(0)
    scene.at(0, 7, Op.ALLREDUCE)
    assert scene.after(60) == ""
    scene.processes[0] = ProcessState(0.0, True)
    assert scene.after(60).startswith("rank 3 has not moved for ")


def test_positions_are_read_as_they_are_written(tmp_path: Path) -> None:
    positions.make_file(tmp_path, 2)
    first, second = positions.pages(tmp_path, 2)
    seen: list[Position] = []
    second.enter_pass("a schedule")
    second.set_text("train: epoch 1 of 2")
    copies = second.record_rows(lambda one: seen.append(second.read()))
    second.record_rows(lambda one: copies(task(4, Op.H2D, Lane.H2D)))(task(0, Op.SEND, Lane.COMM))
    assert seen == [Position(Phase.PASS, 1, False, ((4, Op.H2D), (0, Op.SEND)), (), "train: epoch 1 of 2")]
    assert str(seen[0]) == "at row 4 (H2D) and row 0 (SEND), train: epoch 1 of 2" and not seen[0].waiting
    after = second.read()
    assert after.rows == () and len(after.done) == 2 and str(after) == "while looking for its next row, train: epoch 1 of 2"
    second.set_text("short")
    second.enter(Phase.LEAVING)
    assert second.read() == Position(Phase.LEAVING, 1, False, (), (), "short")
    assert first.read() == Position()


def test_a_process_writes_where_its_launcher_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_own", PositionPage(memoryview(bytearray(positions.PAGE))))
    positions.make_file(tmp_path, 3)
    pages = positions.pages(tmp_path, 3)
    positions.join(Membership())  # of nobody's
    positions.own_page().enter(Phase.TESTING)
    assert [page.read().phase for page in pages] == [Phase.STARTING] * 3
    positions.join(Membership(1, 3, 1, 3, str(tmp_path)))
    positions.own_page().enter(Phase.TESTING)
    assert [page.read().phase for page in pages] == [Phase.STARTING, Phase.TESTING, Phase.STARTING]


def test_the_same_row_in_the_next_pass_is_another_position(tmp_path: Path) -> None:
    positions.make_file(tmp_path, 1)
    (page,) = positions.pages(tmp_path, 1)
    seen = []
    for _ in range(2):
        page.enter_pass("a schedule")
        page.record_rows(lambda one: seen.append(page.read()))(task(7))
    page.enter_pass("another")
    seen.append(page.read())
    assert seen[0] != seen[1] and [position.passes for position in seen] == [1, 2, 3]
    assert [position.timed for position in seen] == [False, True, False]


def test_membership_is_what_the_launcher_says() -> None:
    assert Membership.of({}) == Membership(0, 1, 0, 1, "")
    assert Membership.of({"RANK": "5", "WORLD_SIZE": "8"}) == Membership(5, 8, 5, 8, "")
    torchrun = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_PORT": "1"}
    assert Membership.of(torchrun) == Membership(5, 8, 1, 4, "") and Membership.of(torchrun).meeting == "env://"
    apart = Membership(5, 8, 1, 4, "/a folder", "tcp://a:1/job")
    assert Membership.of(apart.variables()) == apart and apart.seat == 0  # its launcher watches no other
    ours = Membership(1, 2, 1, 2, "/a folder")
    assert Membership.of(ours.variables()) == ours and ours.meeting == "file:///a folder/store"


def test_a_rank_that_does_not_move_is_named_with_who_waits(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3, Patience(60.0))
    scene.begin(0, 1, 2, 0, 1, 2)
    scene.at(0, 5, Op.ALLREDUCE)
    scene.at(1, 4)
    scene.at(2, 6, Op.ALLREDUCE)
    assert not scene.after(61)
    hung = "rank 1 has not moved for 61 s at row 4 (COMPUTE); rank 0 waits at row 5 (ALLREDUCE); rank 2 waits at row 6 (ALLREDUCE)"
    assert scene.after(1) == hung


def test_a_rank_that_is_debugged_does_not_hang(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, Patience(60.0))
    scene.begin(0, 1, 0, 1)
    scene.at(0, 5, Op.ALLREDUCE)
    scene.at(1, 4)
    scene.processes[1] = ProcessState(0.0, traced=True)
    assert not scene.after(600)
    scene.processes[1] = ProcessState(0.0)
    assert "rank 1 has not moved" in scene.after(120)


def test_who_may_wait_is_not_blamed_while_others_move(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, Patience(10.0))
    scene.begin(0, 1, 0, 1)
    scene.at(0, 1, Op.ALLTOALL)
    for row in range(50):
        scene.at(1, 2 * row)
        assert not scene.after(1)
    scene.at(1, 100, Op.ALLGATHER)
    assert not scene.after(10)
    assert scene.after(2).startswith("ranks have waited for each other for ")


def test_who_computes_is_blamed_although_others_move(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, Patience(10.0))
    scene.begin(0, 1, 0, 1)
    scene.at(1, 3)
    for row in range(12):
        scene.at(0, row)
        scene.after(1)
    assert scene.watch.hung.startswith("rank 1 has not moved for 11 s at row 3 (COMPUTE); rank 0 is at row")


def test_the_longest_row_of_the_first_passes_makes_patient(tmp_path: Path) -> None:
    """Ten times twenty seconds, of the first pass, too; a wait for others says nothing on how long rows take."""
    scene = Scene(tmp_path, 1, Patience(60.0))
    scene.begin(0)
    scene.at(0, 1, Op.ALLREDUCE)
    scene.after(50)
    scene.at(0, 2)
    scene.after(20)
    scene.begin(0)
    scene.at(0, 3)
    assert not scene.after(200)
    assert scene.after(3).startswith("rank 0 has not moved for 20")
    device = Scene(tmp_path, 1, Patience(60.0))
    device.begin(0)  # its rows are issued at once, and end later
    for _ in range(70):
        device.compute(0)
        device.after(1)
    device.begin(0)
    assert not device.after(690) and device.after(30)


def test_who_said_that_it_sleeps_moves(tmp_path: Path) -> None:
    """Over an emulated link; the others wait for it."""
    scene = Scene(tmp_path, 2, Patience(10.0))
    scene.begin(0, 1, 0, 1)
    scene.at(0, 1, Op.ALLREDUCE)
    scene.at(1, 1, Op.ALLREDUCE)
    scene.pages[1].announce_sleep(int(100e9))
    assert not scene.after(105)
    assert scene.after(10).startswith("ranks have waited for each other for ")


def test_a_watch_that_looks_seldom_sees_who_hangs(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1, Patience(60.0))
    scene.begin(0, 0)
    scene.at(0, 1)
    for _ in range(10):
        scene.now += 5
        scene.watch.look(scene.ended)
    assert not scene.watch.hung
    for _ in range(4):
        scene.now += 5
        scene.watch.look(scene.ended)
    assert scene.watch.hung


def test_where_no_row_says_how_long_computing_is_moving(tmp_path: Path) -> None:
    """Before passes, between them and in the first one; a rank that computes very long is told of, and one that sleeps is ended."""
    scene = Scene(tmp_path, 1, Patience(10.0))
    for enter in (lambda: scene.pages[0].enter(Phase.PREPARING), lambda: (scene.begin(0), scene.at(0, 4)), lambda: None):
        enter()
        for _ in range(40):
            scene.compute(0)
            assert not scene.after(1)
    assert scene.report == "rank 0 has computed for 79 s at row 4 (COMPUTE)"
    assert not scene.after(7) and scene.after(4).startswith("rank 0 has not moved for ")
    scene = Scene(tmp_path, 1, Patience(10.0))
    scene.pages[0].enter(Phase.PREPARING)
    for second in range(12):  # a library's heartbeat is no work
        scene.processes[0] = ProcessState(0.02 * second, False)
        scene.after(1)
    assert scene.watch.hung
    scene = Scene(tmp_path, 1, Patience(10.0))
    scene.begin(0)
    scene.at(0, 3, Op.RECV)
    for _ in range(12):  # who waits for a GPU, or spins, computes nothing
        scene.compute(0)
        scene.after(1)
    assert scene.watch.hung
    later = Scene(tmp_path, 1, Patience(10.0))
    later.begin(0, 0)
    later.at(0, 4)
    for _ in range(12):
        later.compute(0)
        later.after(1)
    assert later.watch.hung  # in the second pass it is a row that does not end


def test_a_stopped_rank_is_to_blame_wherever_it_is(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, Patience(10.0))
    for rank in range(2):
        scene.pages[rank].enter(Phase.MEETING)
    scene.processes[0] = ProcessState(0.0, True)
    assert scene.after(12) == (
        "rank 0 has not moved for 11 s, it is stopped, while meeting the others around a pass; "
        "rank 1 waits while meeting the others around a pass"
    )


def test_who_waits_for_one_that_has_ended_hangs(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, Patience(10.0))
    scene.begin(0, 1)
    scene.at(0, 9, Op.RECV)
    scene.ended[1] = 0
    assert scene.after(12) == "ranks have waited for each other for 11 s; rank 0 waits at row 9 (RECV); rank 1 has ended"


def test_progress_is_reported_once_a_second(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, Patience())
    scene.pages[0].set_text("train: pass 1 of 2")
    message = []
    for _ in range(8):
        scene.now += 0.25
        message.append(scene.watch.look({}))
    assert message == ["", "", "", "train: pass 1 of 2"] * 2


def test_who_prepares_with_others_is_not_blamed_while_one_of_them_computes(tmp_path: Path) -> None:
    """As where the first rank starts an engine, or predicts the only snapshot of a test, and the others wait within the same phase."""
    scene = Scene(tmp_path, 2, Patience(10.0))
    for phase in (Phase.PREPARING, Phase.TESTING):
        for rank in range(2):
            scene.pages[rank].enter(phase)
        for _ in range(40):
            scene.compute(0)
            assert not scene.after(1)


def test_who_writes_to_a_slow_disk_moves(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, Patience(10.0))
    scene.ended[1] = 0
    scene.pages[0].enter(Phase.SAVING)
    scene.processes[0] = ProcessState(0.0, on_disk=True)
    assert not scene.after(40)


def test_a_rank_that_is_stopped_ends_the_job_although_others_spin(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, Patience(10.0))
    for rank in range(2):
        scene.pages[rank].enter(Phase.LEAVING)
    scene.processes[1] = ProcessState(0.0, stopped=True)
    for _ in range(12):
        scene.compute(0)
        scene.after(1)
    assert scene.watch.hung.startswith("rank 1 has not moved for 11 s, it is stopped, while leaving together; rank 0 waits")


def test_a_watch_that_was_stopped_itself_blames_nobody(tmp_path: Path) -> None:
    """Ctrl-Z and fg: ranks went on, and are looked at anew."""
    scene = Scene(tmp_path, 2, Patience(10.0))
    scene.begin(0, 1, 0, 1)
    for rank in range(2):
        scene.at(rank, 1)
    scene.after(3)
    scene.now += 1000
    assert not scene.after(7)
    assert scene.after(5)
