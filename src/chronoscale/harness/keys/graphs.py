"""Keys under `dataset.graph`, and of `--graph` of `chronoscale data` commands: what a signal's graph is built from."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any

import yaml
from pydantic import Field, PositiveFloat, ValidationError, model_validator

from chronoscale.datasets.signals.graphs.graph_kinds import GRAPHS, GraphKind, GraphRecipe
from chronoscale.errors import UserError
from chronoscale.harness.keys.types import Names, Part, Size
from chronoscale.validation_messages import mistake


class GraphKeys(Part):
    """Keys of an experiment file under `dataset.graph`: the recipe of the graph of a signal's sensors, in place of the file's own."""

    kind: GraphKind = Field(
        description="edges by thresholded Gaussian kernel of distances, as DCRNN's; to the nearest sensors; to those whose readings go "
        "together, by the training part alone; to neighbours on a grid; of a file; or none, which says that this is meant"
    )
    path: str | None = Field(
        None,
        description="of `distance` and `knn`, a table with a row a sensor (lat and lon, or x and y), of `distance` also with a row a pair "
        "(from, to, cost); of `file`, edges or a matrix; relative to where the command is given",
    )
    names: Names = Field((), description="of the table's columns, where they are not called so: `[station, lat, lon]` or `[from, to, km]`")
    threshold: Annotated[PositiveFloat, Field(le=1)] | None = Field(
        None, description="least weight of an edge of `distance` (0.1 without it), least correlation (0.5)"
    )
    sigma: PositiveFloat | None = Field(
        None,
        description="width of the kernel exp(-(d/sigma)^2), km where there are latitudes; without it the deviation of distances",
    )
    neighbours: Size | None = Field(None, description="of each sensor, of `knn` and `correlation` (8 without it); of `grid` 4 or 8 (4)")
    rows: Size | None = Field(None, description="of `grid`, whose sensors stand row after row")
    columns: Size | None = Field(None, description="of `grid`")

    @model_validator(mode="after")
    def _read(self) -> GraphKeys:
        read = {field.name: field for field in fields(GRAPHS[self.kind])}
        for key in self._given:
            if key not in read:
                raise UserError(f"graph.{key}: kind {self.kind} does not read it; it reads {', '.join(read) or 'nothing'}")
        for name, field in read.items():
            if field.default is MISSING and getattr(self, name) is None:
                raise UserError(f"graph.{name}: kind {self.kind} needs it")
        self.recipe  # noqa: B018 (validated by reading)
        return self

    @property
    def _given(self) -> dict[str, Any]:
        """The keys beside the kind that have a value, in their order; a run's record has the others, too, without one."""
        return {name: value for name in type(self).model_fields if name != "kind" and (value := getattr(self, name)) not in (None, ())}

    @property
    def recipe(self) -> GraphRecipe:
        """The recipe, which builds the graph of a signal."""
        return GRAPHS[self.kind](**self._given)


def parse_graph(text: str) -> GraphKeys:
    """Read `--graph`: keys and values as under `dataset.graph` of an experiment file, between braces. Raises UserError for another text."""
    try:
        keys = yaml.safe_load(text)
    except yaml.YAMLError:
        keys = None
    if not isinstance(keys, dict):
        raise UserError(f"--graph {text}: expected keys and values, such as '{{kind: knn, path: sensors.csv, neighbours: 8}}'")
    try:
        return GraphKeys.model_validate(keys)
    except ValidationError as error:
        raise UserError(f"--graph: {mistake(error, GraphKeys)}") from None
    except UserError as error:
        raise UserError(f"--graph: {error}") from None
