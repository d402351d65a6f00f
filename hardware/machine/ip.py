# SPDX-License-Identifier: Apache-2.0
"""Both versions of IP: their addresses, in the notation that programs expect, and the sizes of headers."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, ip_address
from typing import Literal

IpVersion = Literal[4, 6]
IP_VERSIONS: tuple[IpVersion, ...] = (4, 6)
UDP_HEADERS: Mapping[IpVersion, int] = {4: 20 + 8, 6: 40 + 8}
"""Bytes of the IP and UDP headers of a packet."""


def ip_version(address: str) -> IpVersion:
    """Return the IP version of an address. Raises ValueError if it is not an address."""
    return 4 if isinstance(ip_address(address), IPv4Address) else 6


def as_host(address: str) -> str:
    """Return an address as written before a port and in a URL (RFC 3986, 3.2.2): IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address
