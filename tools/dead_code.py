"""Find functions, methods and classes of the package that nothing uses: `python tools/dead_code.py`; exit code 1 if there are any.

vulture looks for names; what frameworks call by name is listed here, with who calls it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).parents[1]
LOOKED_AT = ("src/chronoscale", "benchmarks", "tools", "examples", "tests")
REPORTED = ROOT / "src" / "chronoscale"
KINDS = {"function", "method", "class", "property", "import", "unreachable_code"}
CALLED = [
    "find_class", "persistent_load", "persistent_id",  # pickle.Unpickler, pickle.Pickler
    "readinto",  # io.RawIOBase
    "setup_context", "jvp",  # torch.autograd.Function
    "visit_*",  # ast.NodeVisitor
    "_get_server_args", "_prepare_stream",  # distributed's TCPListener
]  # fmt: skip
DECORATED = ["@field_validator", "@model_validator", "@pydantic.*", "@register*", "@atexit.register"]


def unused(folders: list[Path], reported: Path) -> list[str]:
    """Say, a line each, which definitions below `reported` are used nowhere in any of the folders."""
    vulture = Vulture(ignore_names=CALLED, ignore_decorators=DECORATED)
    vulture.scavenge([str(folder) for folder in folders if folder.exists()], exclude=["*/build/*", "*/.venv/*"])
    named = commands(reported)
    return [
        f"{Path(item.filename).relative_to(reported)}:{item.first_lineno}: {item.typ} {item.name} is used nowhere"
        for item in vulture.get_unused_code(min_confidence=60)
        if reported in Path(item.filename).parents and item.typ in KINDS and item.name not in named
    ]


def commands(package: Path) -> set[str]:
    """Functions that tables of the package name as text, `module:function`, and those that a study file names."""
    texts = (path.read_text() for path in package.rglob("*") if path.suffix in (".py", ".yaml"))
    studies = (path.read_text() for path in (package / "studies").rglob("*.yaml"))
    return {name for text in texts for name in _targets(text)} | {word for text in studies for word in re.findall(r"[a-z_]\w*", text)}


def _targets(text: str) -> set[str]:
    return set(re.findall(r"[\w.]+:([A-Za-z_]\w*)", text))


if __name__ == "__main__":
    lines = unused([ROOT / folder for folder in LOOKED_AT], REPORTED)
    print("\n".join(lines), end="\n" * bool(lines))
    sys.exit(bool(lines))
