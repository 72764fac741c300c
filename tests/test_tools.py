"""What `make check` finds by tools of ours: dead links and dead code."""

from pathlib import Path

from tools_of import tool

links, dead_code = tool("links"), tool("dead_code")


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# A head\n")
    text = "[a](other.md) [b](other.md#a-head) [c](gone.md) [d](other.md#no-head) [e](#one) [f](https://example.org/x)\n\n# One\n"
    page.write_text(text)
    assert list(links.dead_links(page, text)) == ["link to gone.md", "link to other.md#no-head: no such heading"]
    assert list(links.dead_links(page, f"```\n{text}```\n")) == []


def test_names_of_files_and_modules_that_are_gone_are_found(tmp_path: Path) -> None:
    text = "`simulator/engine.py`, `simulator.engine.replay`, `runs/mine/x.json`, `simulator/gone.py`, `chronoscale.simulator.gone.what`"
    assert list(links.dead_names(tmp_path / "page.md", text)) == ["file simulator/gone.py", "module chronoscale.simulator.gone.what"]


def test_what_nothing_uses_is_found(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "code.py").write_text(
        "def used(): ...\n\ndef tested(): ...\n\ndef named(): ...\n\ndef unused(): ...\n\nTABLE = {'a': 'package.code:named', 'b': used}\n"
    )
    (tmp_path / "test_code.py").write_text("from package.code import TABLE, tested\n\nprint(TABLE, tested)\n")
    found = dead_code.unused([tmp_path], tmp_path / "package")
    assert found == ["code.py:7: function unused is used nowhere"]
