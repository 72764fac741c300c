"""docs/tgb.md: its commands, run as they stand on files as TGB publishes them; and what is refused."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import command, one_line
from tgb_files import columns_of, evaluator_mrr, masks_of, write_tgb

from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.harness.workflows.streams.tgb_results import tgb_results

PAGE = (Path(__file__).parents[2] / "docs" / "tgb.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = dict(BLOCK.findall(PAGE))
SMALL = (
    ("hidden: 100", "hidden: 8, time: 4"),
    ("batch_size: 200, fanout: [10]", "batch_size: 20, fanout: [3]"),
    ("epochs: 30", "epochs: 2"),
)


@pytest.fixture
def wiki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: None) -> str:
    """Files of TGB's; the page's experiment, made smaller."""
    monkeypatch.chdir(tmp_path)
    text, file = BLOCKS["yaml"], write_tgb(tmp_path)
    for given, small in SMALL:
        assert given in text
        text = text.replace(given, small)
    assert all(f"`{path.name}`" in PAGE for path in tmp_path.glob("tgbl-*")) and f"path: {file.name}" in text
    Path("wiki.yaml").write_text(text)
    return text


def test_the_page_leads_to_the_evaluator_s_numbers(wiki: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in BLOCKS["console"].splitlines():
        command(*line.split()[1:])
    records = json.loads(Path("results/tgb.json").read_text())
    shown = [line.split('"')[1] for line in BLOCKS["json"].splitlines() if '"' in line]
    assert [list(record)[: len(shown)] for record in records] == [shown] * 2
    assert [(r["model"], r["data"], r["run"], r["seed"]) for r in records] == [("tgn", "tgbl-wiki", 0, 1), ("tgn", "tgbl-wiki", 1, 2)]
    assert set(records[0]) - {*shown} == {"test mrr", "test_time", "tot_train_val_time"}
    src, dst, t = columns_of(Path("tgbl-wiki_edgelist_v2.csv"))
    mask, rows = masks_of(t)["test"], pickle.loads(Path("tgbl-wiki_test_ns_v2.pkl").read_bytes())
    negatives = [rows[key] for key in zip(src[mask], dst[mask], t[mask], strict=True)]
    for number, record in enumerate(records, start=1):
        folder = Path(f"runs/wiki-train-{number}/train")
        logits, evaluation = np.load(folder / "predicted.npy"), json.loads((folder / "evaluation.json").read_text())
        others = [line[2 : 2 + len(row)].tolist() for line, row in zip(logits, negatives, strict=True)]
        assert record["test mrr"] == pytest.approx(evaluator_mrr(logits[:, 0].tolist(), others), rel=1e-6)
        assert record["val mrr"] == [evaluation["validation"]["mrr"]] and record["test_time"] == evaluation["test_s"] > 0
        epochs = [json.loads(path.read_text()) for path in sorted((folder / "epochs").glob("*.json"))]
        trained = sum(epoch["end_ns"] - epoch["start_ns"] + epoch["switch_ns"] for epoch in epochs) / 1e9
        assert len(epochs) == 2 and record["tot_train_val_time"] == pytest.approx(trained + evaluation["validation_s"])
    data = json.loads(Path("results/report.json").read_text())
    mrr = {"validation": [r["val mrr"][0] for r in records], "test": [r["test mrr"] for r in records]}
    means = ", ".join(f"{period} MRR {np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" for period, values in mrr.items())
    assert (
        f"tgb.json: tgn on tgbl-wiki, {means} (mean and deviation of 2 runs of 'wiki', seeds 1, 2)." in data["notes"]
        and "tgb.json" in data["files"]
    )
    printed = " ".join("".join(capsys.readouterr()).split())
    assert f"Validation, ranked against published negatives with the model of epoch {kept_best(2)}, the best of 0..1: AP " in printed
    command("predict", "runs/wiki-train-1", "--out", "test.csv")
    table = pd.read_csv("test.csv")
    assert (1 / table["rank"]).mean() == pytest.approx(records[0]["test mrr"]) and table["event"].tolist() == np.flatnonzero(mask).tolist()
    runs = [Run(Path(f"runs/wiki-train-{number}")) for number in (1, 2)]
    one, two = (load_experiment(run) for run in runs)
    assert isinstance(one, StreamExperiment) and isinstance(two, StreamExperiment)
    longer = one.model_copy(update={"epochs": 3})  # of another setting: no mean is over both
    apart = tgb_results([(longer, runs[0]), (two, runs[1])])
    assert apart is not None and [record["run"] for record in json.loads(apart.text)] == [0, 0]
    endings = [f"one run of 'wiki', seed {seed}; TGB's leaderboard asks for five)." for seed in (1, 2)]
    assert [sentence.partition(" (")[2] for sentence in apart.sentences] == endings
    path = Path("tgbl-wiki_test_ns_v2.pkl")
    path.write_bytes(pickle.dumps({key: row[:1] for key, row in pickle.loads(path.read_bytes()).items()}))
    Path("runs/wiki-train-1/.lock").unlink()  # which this process holds
    command("train", "wiki.yaml", "--seed", "1")
    shutil.copytree("runs/wiki-train-2", "runs/again")
    (record := Path("runs/again/train/test.json")).write_text(json.dumps(json.loads(record.read_text()) | {"mrr": 0.125}))
    command("report", "runs/again", *(f"runs/wiki-train-{number}" for number in (1, 2, 3)), "--out", "mixed")
    assert [(r["run"], r["seed"]) for r in json.loads(Path("mixed/tgb.json").read_text())] == [(0, 2), (1, 1), (2, 2), (0, 1)]
    notes = [note for note in json.loads(Path("mixed/report.json").read_text())["notes"] if note.startswith("tgb.json: ")]
    digests = [Run(Path(f"runs/wiki-train-{number}")).environment[path.name][:12] for number in (1, 3)]
    assert digests[0] != digests[1]
    of_two = means.partition(", ")[0], f"{np.mean(mrr['test']):.4f} ± {np.std(mrr['test'], ddof=1):.4f}"  # nothing of 0.125
    assert notes[0] == (
        f"tgb.json: tgn on tgbl-wiki, {of_two[0]}, test MRR {of_two[1]} (mean and deviation of 2 runs of 'wiki', seeds 2, 1; "
        f"content of {path.name} {digests[0]}; seed 2 more than once, of which the last given run counts)."
    )
    assert notes[1].endswith(f"(one run of 'wiki', seed 1; TGB's leaderboard asks for five; content of {path.name} {digests[1]}).")


def kept_best(number: int) -> int:
    best: int = json.loads(Path(f"runs/wiki-train-{number}/train/ended.json").read_text())["best"]
    return best


def test_the_test_alone_and_virtual_ranks(wiki: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a strategy that spreads memory; what is not known is NA. A change of a file's content begins another run."""
    text = wiki.replace(", validation: tgbl-wiki_val_ns_v2.pkl", "").replace("[tgl-unique]", "[memshare]")
    Path("spread.yaml").write_text(text.replace("epochs: 2", "epochs: 1"))
    command("train", "spread.yaml")
    Path("virtual.yaml").write_text(wiki.replace("epochs: 2", "epochs: 1\nvirtual: true").replace("name: tgn", "name: tgat"))
    command("train", "virtual.yaml", "--json")
    command("report", "runs/spread-train-1", "runs/virtual-train-1", "--out", "both")
    spread, virtual = json.loads(Path("both/tgb.json").read_text())
    assert spread["val mrr"] == "NA" and spread["test_time"] > 0 and 0 < spread["test mrr"] < 1
    assert virtual["test_time"] == virtual["tot_train_val_time"] == "NA" and 0 < virtual["val mrr"][0] < 1
    assert (spread["model"], spread["run"], virtual["model"], virtual["run"]) == ("tgn", 0, "tgat", 0)
    notes = json.loads(Path("both/report.json").read_text())["notes"]
    for sentence in ("tgb.json: tgn on tgbl-wiki, test MRR ", "tgb.json: tgat on tgbl-wiki, validation MRR "):
        assert any(note.startswith(sentence) for note in notes)
    path = Path("tgbl-wiki_test_ns_v2.pkl")
    path.write_bytes(pickle.dumps({key: row[:1] for key, row in pickle.loads(path.read_bytes()).items()}))
    Path("runs/spread-train-1/.lock").unlink()  # which this process holds
    command("train", "spread.yaml", "--epochs", "2")  # goes on with the one epoch of the same files alone
    assert sorted(path.name for path in Path("runs").iterdir()) == ["spread-train-1", "spread-train-2", "virtual-train-1"]
    assert json.loads(Path("runs/spread-train-2/train/test.json").read_text())["mrr"] >= 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((("[tgl-unique]", "[memshare]"),), "strategy 'memshare' spreads memory over ranks"),
        ((("patience: 5", "ranked: 7"),), "training.ranked: for negatives that are drawn"),
        ((("patience: 5", "negatives: random"),), "training.negatives: for negatives that are drawn"),
        ((("patience: 5", "task: node"),), "dataset.negatives: links are ranked against them"),
        ((("patience: 5", "split: [0.6, 0.2]"),), "tgbl-wiki_test_ns_v2.pkl: no negatives of"),
        ((("{test: tgbl-wiki_test_ns_v2.pkl, validation", "{validation"),), "dataset.negatives.test"),
        ((("{test: tgbl-wiki_test_ns_v2.pkl", "{test: ''"),), "dataset.negatives.test"),
        ((("tgbl-wiki_val", "tgbl-wiki_other"),), "tgbl-wiki_other_ns_v2.pkl: no such file"),
        ((("wiki_val", "wiki_test"),), "no negatives of"),
        ((("name: tgn", "name: wd-gcn"),), "dataset.negatives: for streams alone"),
    ],
)
def test_what_does_not_go_together_is_refused(
    wiki: str, capsys: pytest.CaptureFixture[str], changes: tuple[tuple[str, str], ...], message: str
) -> None:
    """In one line, and nothing of a run is left."""
    for given, other in changes:
        assert given in wiki
        wiki = wiki.replace(given, other)
    Path("wrong.yaml").write_text(wiki)
    command("train", "wrong.yaml", expect=2)
    assert message in one_line(capsys) and not Path("runs").exists()
