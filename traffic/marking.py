# SPDX-License-Identifier: Apache-2.0
"""Set the ECN field of a program's packets as they leave its host, where the program itself cannot (nftables)."""

from __future__ import annotations

from hardware.machine.place import Place

_TABLE = "inet sojourn_marking"


def mark_udp(place: Place, port: int, codepoint: str) -> None:
    """Send every UDP packet from local `port` of `place` as `codepoint` (ect0, ect1) from now on.

    Raises CommandError where nft is missing or refused.
    """
    rules = (
        f"add table {_TABLE}\nadd chain {_TABLE} egress {{ type filter hook postrouting priority mangle; }}\n"
    ) + "".join(f"add rule {_TABLE} egress udp sport {port} {ip} ecn set {codepoint}\n" for ip in ("ip", "ip6"))
    place.run(["nft", "-f", "-"], input=rules)


def clear_marking(place: Place) -> None:
    """Undo `mark_udp`; raises CommandError when there was none."""
    place.run(["nft", "delete", "table", *_TABLE.split()])
