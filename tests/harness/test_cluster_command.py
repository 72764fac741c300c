"""`chronoscale cluster`: clusters listed, links fitted to what a benchmark printed, and simulated with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from command_line import command, one_line

from chronoscale.simulator import presets

HEAD = """# source: https://example.org/1
# date: 2025-03-03
# nodes: 2 gpus_per_node: 8
# all_reduce_perf -b 8 -e 1G
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def printed(folder: Path, name: str = "reduced.txt", latency_us: float = 60.0, rate: float = 300e9) -> Path:
    """A table by latency and rate, as all_reduce_perf prints it."""
    rows = []
    for size in 2 ** np.arange(10, 31, dtype=np.int64):
        took = latency_us + size / rate * 1e6
        rows.append(f"{size} {size // 4} float sum {took:.2f} {size / took / 1e3:.2f} 1.0 0 {took:.2f} 1.0 1.0 0")
    path = folder / name
    path.write_text(HEAD + "\n".join(rows) + "\n")
    return path


def test_clusters_are_listed_with_what_links_reach(capsys) -> None:
    command("cluster", "list", "--json")
    rows = {row["cluster"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == presets.names() and rows["h200"]["gpus"] == 32
    assert rows["h200"]["between_gb_s"] == pytest.approx(47.0) and rows["h200"]["device"] == "NVIDIA H200"


def test_a_fitted_file_is_simulated_with_and_says_what_it_leaves_out(experiment, capsys, tmp_path: Path) -> None:
    table = printed(tmp_path)
    command(
        "cluster",
        "fit",
        str(table),
        "--base",
        "h100",
        "--out",
        "lab.yaml",
        "--held-out",
        str(printed(tmp_path, "later.txt", 70.0)),
        "--json",
    )
    fitted, later = json.loads(capsys.readouterr().out)
    assert (fitted["file"], fitted["operation"], fitted["gpus"], fitted["sizes"]) == ("reduced.txt", "ALLREDUCE", 16, 21)
    assert fitted["held_out"] < 0.15 and later["fitted"] is None and 0 < later["held_out"] < 0.3
    text = Path("lab.yaml").read_text()
    assert "https://example.org/1, 2025-03-03" in text and "later.txt: ALLREDUCE of 2 x 8" in text and "of what was held out" in text
    contents = yaml.safe_load(text)
    assert contents["device"]["name"] == "NVIDIA H100 80GB HBM3" and contents["inter"]["bandwidth"] == 50e9
    del contents["topology"], contents["intra"]["efficiency"]
    Path("lab.yaml").write_text(yaml.safe_dump(contents))
    command("simulate", experiment(strategies=["psg"], gpus=[2], cluster="lab.yaml", assumptions={"draws": 0}))
    shown = " ".join(capsys.readouterr().err.split())
    assert "The file of cluster 'lab' leaves out intra.efficiency: 0.8 of the line rate, as NVLink; topology: a network card" in shown
    assert "topology: a network card for each GPU" in shown
    command("report", "runs/small-simulate-1", "--out", "page")
    assert "leaves out intra" in Path("page/report.md").read_text().replace("\\_", "_")


def test_what_cannot_be_fitted_is_one_line(capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    def refused(*words: str) -> str:
        command("cluster", "fit", *words, expect=2)
        return one_line(capsys)

    table = printed(tmp_path)
    Path("there.yaml").write_text("")
    assert "there.yaml: there already" in refused(str(table), "--base", "h100", "--out", "there.yaml")
    assert "none.txt" in refused("none.txt", "--base", "h100")
    assert "unknown cluster 'h1000'" in refused(str(table), "--base", "h1000")
    table.write_text(table.read_text()[:-20])
    assert "reduced.txt:27: a row cut short" in refused(str(table), "--base", "h100")
