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
    "find_class", "persistent_load",  # pickle.Unpickler
    "readinto",  # io.RawIOBase
    "setup_context", "jvp",  # torch.autograd.Function
    "visit_*",  # ast.NodeVisitor
]  # fmt: skip
DECORATED = ["@field_validator", "@model_validator", "@pydantic.*", "@register*", "@atexit.register"]


def main() -> int:
    """Print what is unused, a line each; return 1 if there is anything."""
    vulture = Vulture(ignore_names=CALLED, ignore_decorators=DECORATED)
    vulture.scavenge([str(ROOT / folder) for folder in LOOKED_AT if (ROOT / folder).exists()], exclude=["*/build/*", "*/.venv/*"])
    named = commands()
    unused = [
        item
        for item in vulture.get_unused_code(min_confidence=60)
        if REPORTED in Path(item.filename).parents and item.typ in KINDS and item.name not in named
    ]
    for item in unused:
        print(f"{Path(item.filename).relative_to(ROOT)}:{item.first_lineno}: {item.typ} {item.name} is used nowhere")
    return bool(unused)


def commands() -> set[str]:
    """Functions that tables of the package name as text, `module:function`, and import when they are called."""
    texts = (path.read_text() for path in REPORTED.rglob("*") if path.suffix in (".py", ".yaml"))
    return {name for text in texts for name in _targets(text)}


def _targets(text: str) -> set[str]:
    return set(re.findall(r"[\w.]+:([a-z_]\w*)", text))


if __name__ == "__main__":
    sys.exit(main())
