"""Topology: what joins a cluster's devices, memories and machines, as the `topology` of a cluster file describes it.

Bandwidths are bytes/s in one direction. What a file may leave out says what is assumed then (`Assumed`).
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _of_bytes(value: float) -> float:
    """Check a bandwidth: numbers below 1e6 are taken for other units."""
    if not value >= 1e6:  # nor a number that is none
        raise ValueError("expected bytes/s in one direction, at least 1e6 (400 Gb/s are 50.0e+9)")
    return value


Bandwidth = Annotated[float, AfterValidator(_of_bytes)]
Efficiency = Annotated[float, Field(gt=0, le=1)]  # the share of a bandwidth that transfers reach


class Assumed(NamedTuple):
    """Mark of a key that the file of a cluster that schedules are planned for may leave out: what that means, in words, after its value."""

    words: str


class _Keys(BaseModel):
    """A group of keys, none of which may be unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Host(_Keys):
    """Host memory of a machine in the file of a cluster that schedules are planned for (`topology`); devices are spread evenly over the
    sockets, in order."""

    memory_bandwidth: Bandwidth  # of one socket, reading and writing together
    sockets: int = Field(1, ge=1)
    efficiency: Annotated[Efficiency, Assumed("of the peak")] = 0.85


class Switches(_Keys):
    """PCIe switches of a machine in the file of a cluster that schedules are planned for (`topology`), with `gpus` and `nics` on each, in
    order."""

    count: int = Field(ge=1)
    gpus: int = Field(ge=1)
    nics: int = Field(0, ge=0)
    bandwidth: Bandwidth  # of a switch's link to the host
    efficiency: Annotated[Efficiency, Assumed("of the line rate, as pinned copies over PCIe")] = 0.85


class LeafSpine(_Keys):
    """Network between machines in the file of a cluster that schedules are planned for (`topology`): leaf switches with `nodes_per_leaf`
    machines each, all joined by a spine.

    oversubscription: what a leaf's machines can send together over what goes up to the spine.
    """

    nodes_per_leaf: int = Field(ge=1)
    oversubscription: float = Field(1.0, ge=1, allow_inf_nan=False)


class Dragonfly(_Keys):
    """Network between machines in the file of a cluster that schedules are planned for (`topology`): routers with `nodes_per_router`
    machines each, in groups; every two routers of a group are joined, and every two groups.

    The link between groups a and b lies at router b mod `routers_per_group` of a, and the other way round. Routes are shortest ones (Kim,
    Dally, Scott, Abts; ISCA 2008: minimal routing).
    """

    nodes_per_router: int = Field(ge=1)
    routers_per_group: int = Field(ge=1)
    local_bandwidth: Bandwidth  # between two routers
    global_bandwidth: Bandwidth  # between two groups


class Cable(_Keys):
    """Single link of the network of a cluster that schedules are planned for, drawn by hand in its file (`topology`); an end "node 3" is a
    machine, any other name a switch."""

    ends: Annotated[tuple[str, str], Field(strict=False)]
    bandwidth: Bandwidth


class Fabric(_Keys):
    """Network between machines in the file of a cluster that schedules are planned for (`topology`), in exactly one of three forms: leaf
    and spine, dragonfly, or single cables."""

    leaf_spine: LeafSpine | None = None
    dragonfly: Dragonfly | None = None
    cables: Annotated[tuple[Cable, ...], Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Fabric:
        """Check that one form is given."""
        if sum(way is not None for way in (self.leaf_spine, self.dragonfly, self.cables)) != 1:
            raise ValueError("expected one of leaf_spine, dragonfly and cables")
        return self


class Topology(_Keys):
    """Links of a cluster that schedules are planned for and simulated on, beyond its two bandwidths: the `topology` of its file.

    peer: what joins devices of a machine, NVLink (each has its whole bandwidth to any other, as through NVSwitch) or PCIe. nics: of a
    machine, spread evenly over its devices, in order; together they have the `inter` bandwidth of all devices. gpudirect: a network card
    reads a device's memory; otherwise what it sends is written to the host's memory first, and read from there. nvls: NVSwitch adds what
    all-reduces add up (NVLink SHARP, of NVSwitch 3 and later).
    """

    peer: Literal["nvlink", "pcie"]
    nics: int = Field(ge=1)
    gpudirect: bool = True
    nvls: Annotated[bool, Assumed("all-reduces are not made in NVSwitch")] = False
    host: Annotated[Host | None, Assumed("its memory is never full")] = None
    switches: Annotated[Switches | None, Assumed("each GPU has lanes of its own to the host")] = None
    fabric: Annotated[Fabric | None, Assumed("no switch between machines is ever full")] = None
