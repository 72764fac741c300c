"""What tests cost: a pytest plug-in that counts every test's CPU seconds, refuses dear ones, and holds the total against a budget.

A second here is a *unit*: what a machine like CI's does in one second of CPU, by a fixed piece of work that is measured again and again (a
slower or busier machine is not refused). A test costs what its set-up, call and teardown spend, children included that were waited for, and
those of the servers that fork children for it (`COUNTERS`). Fixtures of a wider scope are counted for themselves; full collections of
garbage, which go through all that is imported and end what others have left, are nobody's.

A test above 4 units that is not marked `slow` runs again, and ends in an error if it is as dear a second time; so does, at once, a wider
fixture above 30. `--budget MINUTES` makes the session fail where all of it, imports included, costs more. docs/testing.md says how to keep
a test cheap.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Generator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

TEST, FIXTURE = 4.0, 30.0  # units, the most that is let pass
COUNTERS = ("forked", "chronoscale.real_exec.ranks.rank_group")  # modules whose spent_s() tells of children that are not ours to wait for
REFERENCE_S = 0.0165  # of one piece of work, where a unit is a second
RENEWED_S = 10.0  # CPU seconds after which the work is measured again
KEPT = 9  # measurements of the work
DEAREST = 10


def spent_s() -> float:
    """Return the CPU seconds that this process and its children have spent."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    counters = (getattr(sys.modules.get(name), "spent_s", None) for name in COUNTERS)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + sum(counter() for counter in counters if counter is not None)


def measure_s() -> float:
    """Return the CPU seconds of one piece of work, without the collector of garbage, which would go through all that is imported."""
    collects = gc.isenabled()
    gc.disable()
    before = time.process_time()
    words = {}
    for number in range(30_000):
        words[str(number * 7919 % 30_011)] = number
    sum(number for _, number in sorted(words.items()))
    seconds = time.process_time() - before
    if collects:
        gc.enable()
    return seconds


class Unit:
    """How many CPU seconds a unit takes: by the median of the last measurements."""

    def __init__(self) -> None:
        self.measured: list[float] = []
        self.at = 0.0
        self.renew(KEPT)

    def renew(self, count: int = 1) -> None:
        self.measured = [*self.measured, *(measure_s() for _ in range(count))][-KEPT:]
        self.at = time.process_time()

    def units(self, seconds: float) -> float:
        if time.process_time() - self.at > RENEWED_S:
            self.renew()
        return seconds * REFERENCE_S / median(self.measured)


class Counter:
    """Counts what the tests of this process cost, and tells it with each test's last report."""

    def __init__(self) -> None:
        self.unit = Unit()
        self.began = self.counted = spent_s()
        self.total = self.unit.units(self.counted)  # of the imports, too
        self.wider: list[tuple[str, float]] = []
        self.collecting = self.collected = 0.0  # spent_s() when a full collection began; seconds of all of them
        self.inside: list[float] = []  # of each wider fixture that is being set up: what others inside it have cost

    def collect(self, phase: str, about: dict[str, int]) -> None:
        """Count a full collection of garbage; called by it."""
        if about["generation"] < 2:
            return
        if phase == "start":
            self.collecting = spent_s()
        else:
            self.collected += spent_s() - self.collecting

    def spent_s(self) -> float:
        """Return the CPU seconds that were spent, full collections of garbage left out."""
        return spent_s() - self.collected

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, and once more where it was too dear: what an earlier one has left may have ended in it."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = self.reports(item, nextitem)
        if any(getattr(report, "itself", False) for report in reports):
            item._initrequest()  # type: ignore[attr-defined]  # as for a test that has not run
            reports = self.reports(item, nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def reports(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[pytest.TestReport]:
        """Run a test and return its reports, which nobody has seen."""
        self.began, self.wider = self.spent_s(), []
        return runtestprotocol(item, log=False, nextitem=nextitem)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        began = self.spent_s()
        self.inside.append(0.0)
        try:
            return (yield)
        finally:
            whole = self.spent_s() - began
            own = whole - self.inside.pop()
            if self.inside:
                self.inside[-1] += whole
            self.wider.append((f"{fixturedef.baseid or '.'}::{fixturedef.argname}", own))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            self.judge(item, report)
        return report

    def judge(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Write the costs into a test's last report, which fails where they are too high."""
        seconds = self.spent_s() - self.began - sum(cost for _, cost in self.wider)
        too_dear = item.get_closest_marker("slow") is None and self.refusal(seconds)
        if too_dear:
            self.unit.renew(KEPT)  # the machine may just be busier than it was
            too_dear = self.refusal(seconds)
        report.cost = self.unit.units(seconds)
        report.wider = [(name, self.unit.units(cost)) for name, cost in self.wider]
        self.advance()
        if too_dear and not report.failed:
            report.outcome, report.longrepr = "failed", too_dear
            report.itself = self.unit.units(seconds) > TEST  # not a wider fixture, which would be there a second time

    def refusal(self, seconds: float) -> str | None:
        """Return a sentence on what was too dear, if something was."""
        lines = [
            f"{name} cost {self.unit.units(cost):.1f} units (CPU seconds of a quiet machine): a wider fixture may cost {FIXTURE:g}"
            for name, cost in self.wider
            if self.unit.units(cost) > FIXTURE
        ]
        if self.unit.units(seconds) > TEST:
            lines.append(
                f"this test cost {self.unit.units(seconds):.1f} units (CPU seconds of a quiet machine): one not marked slow may cost "
                f"{TEST:g}; make it cheaper, or mark it and keep a cheap one beside it (docs/testing.md)"
            )
        return "; ".join(lines) or None

    def advance(self) -> None:
        """Add what was spent since the last call to the total, in units of now."""
        now = spent_s()
        self.total += self.unit.units(now - self.counted)
        self.counted = now

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.advance()  # what servers themselves have imported is missing: some seconds each
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput.update(units=self.total, collected=self.unit.units(self.collected))


class Account:
    """Adds up what all processes have told, prints it, and judges the session."""

    def __init__(self, budget: float | None, file: str | None) -> None:
        self.budget, self.file = budget, file
        self.workers: list[float] = []
        self.collected = 0.0
        self.costs: dict[str, float] = {}
        self.wider: dict[str, float] = {}
        self.total = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown" and hasattr(report, "cost"):
            self.costs[report.nodeid] = report.cost
            for name, cost in report.wider:
                self.wider[name] = self.wider.get(name, 0.0) + cost

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", {})
        self.workers.append(output.get("units", 0.0))
        self.collected += output.get("collected", 0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        counter = session.config.pluginmanager.get_plugin("budget-counter")
        self.total = (counter.total if counter else time.process_time()) + sum(self.workers)  # which are children of this process
        self.collected += counter.unit.units(counter.collected) if counter else 0.0
        if self.budget is not None and self.total > self.budget * 60 and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.costs:
            return
        if self.file:
            Path(self.file).write_text(json.dumps({"tests": self.costs, "fixtures": self.wider, "total": self.total}, indent=1))
        beside = "" if self.budget is None else f" of {self.budget:g}"
        over = self.budget is not None and self.total > self.budget * 60
        terminalreporter.section(f"{self.total / 60:.1f}{beside} minutes of CPU{', ABOVE THE BUDGET' if over else ''}", red=over, bold=over)
        wider = sum(self.wider.values())
        sums = f"tests {sum(self.costs.values()):.0f} units, wider fixtures {wider:.0f}, full collections {self.collected:.0f}"
        terminalreporter.line(f"{sums}, with imports {self.total:.0f}")
        for kind, costs in (("", self.costs), ("fixture ", self.wider)):
            for name in sorted(costs, key=costs.__getitem__, reverse=True)[:DEAREST]:
                if costs[name] >= 0.5:
                    terminalreporter.line(f"{costs[name]:7.1f}  {kind}{name}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--budget", type=float, metavar="MINUTES", help="fail if the session costs more minutes of a quiet machine's CPU")
    parser.addoption("--costs", metavar="FILE", help="write there what each test and wider fixture cost, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    worker = hasattr(config, "workerinput")
    if worker or not config.getoption("numprocesses", None):
        counter = Counter()
        gc.callbacks.append(counter.collect)
        config.pluginmanager.register(counter, "budget-counter")
    if not worker:
        config.pluginmanager.register(Account(config.getoption("budget"), config.getoption("costs")), "budget-account")
