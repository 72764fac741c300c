"""Standing comparisons: their experiments are read, and their pages are those of their results."""

from pathlib import Path

import pytest
from tools_of import tool

from chronoscale.harness.keys.experiment_files import load

comparisons = tool("comparisons")
EXPERIMENTS = sorted(comparisons.FOLDER.glob("*/*.yaml"))


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_an_experiment_is_read_and_validates(file: Path) -> None:
    assert load(file).validates


@pytest.mark.parametrize("page", sorted({file.parent.name for file in EXPERIMENTS}))
def test_a_page_is_that_of_its_results(page: str) -> None:
    text = (comparisons.FOLDER / f"{page}.md").read_text()
    assert text == comparisons.page(page), f"python tools/comparisons.py --pages writes {page}.md anew"
    shown = {file.stem for file in (comparisons.FOLDER / page).glob("*.json")}
    assert shown <= {file.stem for file in EXPERIMENTS if file.parent.name == page} and all(f"\n## {name}\n" in text for name in shown)
    assert all((comparisons.FOLDER / page / f"{name}.svg").exists() for name in shown)
