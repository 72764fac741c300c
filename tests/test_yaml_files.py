"""YAML files: the quick parser reads what PyYAML's own reads, which says what is wrong."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from chronoscale import yaml_files
from chronoscale.errors import UserError

ROOT = Path(__file__).parents[1]
OURS = sorted((ROOT / "src/chronoscale").rglob("*.yaml"))

plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=12))
nested = st.recursive(plain, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)))


@pytest.mark.sample(12)
@pytest.mark.parametrize("path", OURS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_both_parsers_read_a_file_alike(path: Path) -> None:
    text = path.read_text()
    assert yaml.load(text, yaml_files._QuickLoader) == yaml.load(text, yaml_files._Loader)


@given(nested, st.booleans())
def test_both_parsers_read_what_is_written(value: object, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow)
    assert yaml.load(text, yaml_files._QuickLoader) == yaml.load(text, yaml_files._Loader) == value


def test_a_file_is_read_by_the_quick_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow one is there for what is wrong alone."""
    path = tmp_path / "x.yaml"
    path.write_text("seconds: 1e9")
    monkeypatch.setattr(yaml_files, "_Loader", None)
    assert yaml_files.read(path, "file") == {"seconds": 1e9}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\na: 2", "line 2: key 'a' stands twice, first in line 1"),
        (f"{'[' * 40}", "line 1: nested deeper than 32 levels"),
        ("a: [", "line 1"),
    ],
)
def test_what_is_wrong_is_a_line(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as left:
        yaml_files.read(path, "file")
    assert f"x.yaml: not valid YAML: {line}" in str(left.value)
