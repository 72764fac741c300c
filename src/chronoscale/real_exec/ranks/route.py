"""Route: which network interface of this machine leads to another one."""

from __future__ import annotations

import socket

import psutil

from chronoscale.errors import MachineError


def interface_to(host: str, port: int) -> str:
    """Return the name of the network interface by which this machine reaches `host`, such as eth0; 'lo' for this machine itself.

    Nothing is sent. Raises MachineError, one line, where there is no route, or the name cannot be resolved.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            own = probe.getsockname()[0]
    except OSError as error:
        raise MachineError(f"no route to {host}, where ranks meet: {error.strerror or error}") from None
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address.partition("%")[0] == own for each in addresses):
            return name
    raise MachineError(f"no network interface has the address {own}, by which {host} is reached; set GLOO_SOCKET_IFNAME")


def address_of(interface: str) -> str:
    """Return this machine's first IPv4 address on a network interface, such as 10.0.0.1. Raises MachineError where it has none."""
    for each in psutil.net_if_addrs().get(interface, ()):
        if each.family == socket.AF_INET:
            return str(each.address)
    raise MachineError(f"network interface '{interface}' has no IPv4 address here; set GLOO_SOCKET_IFNAME to one that has")
