"""Check links of Markdown files: `python tools/links.py [FILE ...]`, by default all of the repository. Exit code 1 where one is dead.

Checked are targets of links that are files, their anchors, and names in code marks that look like files or modules of the repository.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "chronoscale"
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|yaml|cpp|cu|h|json|sh))`")
MODULE = re.compile(rf"`((?:chronoscale\.)?(?:{'|'.join(ROOMS)})(?:\.\w+)+)`")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
OLD = ("CHANGELOG.md", "moved_0.2.md")  # names what is gone
MADE = ("runs/", "build/", "report/", "train/", "dist/", "results/", "tcsr/", "parts-")  # what commands write


def anchors(text: str) -> set[str]:
    """Anchors of a document's headings, as forges make them."""
    heads = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def dead_links(path: Path, text: str) -> Iterator[str]:
    """Links to files, and to headings in them, that are not there."""
    for target in LINK.findall(FENCED.sub("", text)):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield f"link to {target}"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield f"link to {target}: no such heading"


def dead_names(path: Path, text: str) -> Iterator[str]:
    """Files and modules that are named and not there."""
    for name in FILE.findall(text):
        places = (ROOT, PACKAGE, path.parent, *PACKAGE.iterdir())
        if not name.startswith(MADE) and not any((place / name).exists() for place in places):
            yield f"file {name}"
    for name in MODULE.findall(text):
        parts = name.removeprefix("chronoscale.").split(".")
        if not any(_module(parts[:end]) for end in range(len(parts), max(len(parts) - 3, 1), -1)):
            yield f"module {name}"


def main(files: list[Path]) -> int:
    """Print what is dead, a line each; return 1 if there is anything."""
    dead = 0
    for path in files:
        text = path.read_text()
        for what in [*dead_links(path, text), *(() if path.name in OLD else dead_names(path, text))]:
            print(f"{path.relative_to(ROOT)}: {what}")
            dead = 1
    return dead


def _module(parts: list[str]) -> bool:
    place = PACKAGE.joinpath(*parts)
    return place.is_dir() or place.with_suffix(".py").exists()


if __name__ == "__main__":
    # Templates of papers' pages are left out: what they link to is beside the page that is made of them.
    listed = subprocess.run(
        ["git", "ls-files", "*.md", ":!:*/page.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    sys.exit(main([Path(name).resolve() for name in sys.argv[1:]] or [ROOT / name for name in listed]))
