# SPDX-License-Identifier: Apache-2.0
"""Set the ECN field of a program's packets as they leave its host, if the program itself cannot (nftables)."""

from __future__ import annotations

from sojourn.hardware.machine.place import Place
from sojourn.traffic.irtt import TOS, Codepoint

_TABLE = "inet sojourn_marking"


def mark_udp(place: Place, port: int, codepoint: Codepoint) -> None:
    """Send every UDP packet from local `port` of `place` as `codepoint` from now on.

    Raises CommandError if nft is missing or refuses.
    """
    # `ip6 ecn set` writes a single byte of the header, which Linux 7.2 does not support.
    sets = f"ip ecn set {codepoint}", f"meta nfproto ipv6 @nh,0,16 set @nh,0,16 & 0xffcf | {TOS[codepoint] << 4:#06x}"
    rules = (
        f"add table {_TABLE}\nadd chain {_TABLE} egress {{ type filter hook postrouting priority mangle; }}\n"
    ) + "".join(f"add rule {_TABLE} egress udp sport {port} {it}\n" for it in sets)
    place.run(["nft", "-f", "-"], input=rules)


def clear_marking(place: Place) -> None:
    """Undo `mark_udp`. Raises CommandError if nothing was marked."""
    place.run(["nft", "delete", "table", *_TABLE.split()])
