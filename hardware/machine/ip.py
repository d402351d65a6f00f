# SPDX-License-Identifier: Apache-2.0
"""IP addresses of both versions, in the notation that programs expect."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address
from typing import Literal

IpVersion = Literal[4, 6]
IP_VERSIONS: tuple[IpVersion, ...] = (4, 6)


def ip_version(address: str) -> IpVersion:
    """Return the IP version of an address. Raises ValueError if it is not an address."""
    return 4 if isinstance(ip_address(address), IPv4Address) else 6


def as_host(address: str) -> str:
    """Return an address as written before a port and in a URL (RFC 3986, 3.2.2): IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address
