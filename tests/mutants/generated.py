"""Generated faults: what tells a GPU of another lane's use, or spares the host a wait, left out line by line.

Marks (`record_use`, `acquire`), waits for events, pinned memory, copies that do not block: every place where the package has
one is a fault.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from anchor import definitions, own
from fault import Fault

SOURCES = Path(__file__).parents[2] / "src" / "chronoscale"
NOTICE = "tests/real_exec/test_device_sync.py"
PAIR = "two_ranks_have_the_losses_of_two_cpus_and_mind_nothing"
NAMES = (
    *("each_kind_of_program", "one_of_several_ranks_on_snapshots", "one_of_several_ranks_on_streams"),
    *("what_another_process_ships_is_pinned", f"{PAIR}[t-gcn-esdg]", f"{PAIR}[tgn-memshare]"),
)
TESTS = " ".join(f"{NOTICE}::test_{name}" for name in NAMES)
APART = {  # marks that two ranks alone need, and their dear cases
    "real_exec/snapshots/hybrid/averaging.py": "t-gcn-dynahb",
    "real_exec/signals/program.py": "dcrnn-dist-index",
}
GRAPHS = " ".join(
    f"tests/real_exec/test_cuda_graphs.py::test_{name}"
    for name in ("lanes_that_nobody_waits_for_and_numbers_of_blocks_that_share_a_graph", "graphs_compute_what_rows_do")
)  # of what CUDA graphs alone run
WRONG = {
    "unmarked": "the allocator is not told that another lane reads a tensor",
    "unordered": "a row does not wait for another lane's",
    "unpinned": "the host waits for a copy, from memory that is not pinned",
    "blocking": "the host waits for a copy",
}
# Marks that no case of these tests needs: transformed features that attention over all rows has marked before; sums of errors, which
# live as long as their program. And a pin that only saves copies.
UNTRIED = {
    ("real_exec/signals/program.py", "SignalProgram._all_reduce", "acquire(self.errors.sums)"),
    ("real_exec/snapshots/convolution.py", "GatConvolution.increment", "acquire(part)"),
    ("real_exec/snapshots/sampled/share.py", "EpochShare._pin", "features.pin_memory()"),
}


def faults() -> list[Fault]:
    """Return all of them, in order of files and lines; names number those of a file."""
    found = [fault for file in sorted((SOURCES / "real_exec").rglob("*.py")) for fault in _of(file)]
    return [fault for fault in found if (fault.file, fault.scope, fault.find) not in UNTRIED]


def _of(file: Path) -> Iterator[Fault]:
    place, numbers = file.relative_to(SOURCES).as_posix(), Counter[str]()
    for scope, root in _scopes(ast.parse(file.read_text()), ""):
        equal = Counter[str]()
        for kind, find, put in _changes(root):
            equal[find] += 1
            numbers[kind] += 1
            name = f"{kind}-{place.removeprefix('real_exec/').removesuffix('.py').replace('/', '-')}-{numbers[kind]}"
            tests = GRAPHS if place == "real_exec/execution/cuda_graphs.py" or scope.startswith("_BatchBlocks") else TESTS
            tests += f" {NOTICE}::test_{PAIR}[{APART[place]}]" if place in APART else ""
            yield Fault(name, place, scope, find, put, WRONG[kind], tests, equal[find])


def _scopes(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    """Return functions and classes by their qualified names, the module as ''."""
    yield name, node
    for below in definitions(node):
        yield from _scopes(below, f"{name}.{below.name}".removeprefix("."))


def _changes(root: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Return the kind of each change of a scope, what to find, and what to put there, in the order in which they stand."""
    for node in own(root):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            match node.value.func:
                case ast.Name("record_use"):
                    yield "unmarked", ast.unparse(node), "pass"
                case ast.Attribute(_, "wait_event"):
                    yield "unordered", ast.unparse(node), "pass"
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name("acquire"):
                    yield "unmarked", ast.unparse(node), ast.unparse(node.args[0])
                case ast.Attribute(value, "pin_memory"):
                    yield "unpinned", ast.unparse(node), ast.unparse(value)
            for spared, kind in (("pin_memory", "unpinned"), ("non_blocking", "blocking")):
                if any(keyword.arg == spared for keyword in node.keywords):
                    kept = [keyword for keyword in node.keywords if keyword.arg != spared]
                    yield kind, ast.unparse(node), ast.unparse(ast.Call(node.func, node.args, kept))
