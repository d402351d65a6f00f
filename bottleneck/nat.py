# SPDX-License-Identifier: Apache-2.0
"""The way to the internet through a router: whose addresses are masqueraded, and whose packets the shaper takes.

A packet that leaves by the WAN side already has the router's address when it reaches the queue. So the shaped class is
chosen earlier, where nftables still sees the host's address: HTB puts a packet into the class given by its priority.
"""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.traffic.ports import IRTT_UNSHAPED

TABLE = "sojourn"
UNDO = [["nft", "delete", "table", "ip", TABLE]]


def table(lan: str, wan: str, near: Sequence[str], far: Sequence[str]) -> str:
    """Return the nftables table of a lab: `near` are the addresses behind `lan`, `far` those behind `wan`.

    Packets to `far` keep their source address, because captures there identify flows by it.
    """
    here, there = (", ".join(dict.fromkeys(addresses)) for addresses in (near, far))
    return f"""
table ip {TABLE} {{
    chain shaped {{
        type filter hook forward priority mangle
        udp dport {IRTT_UNSHAPED} accept
        udp sport {IRTT_UNSHAPED} accept
        oifname "{lan}" ip daddr {{ {here} }} meta priority set 1:10
        oifname "{wan}" ip saddr {{ {here} }} meta priority set 1:10
    }}
    chain out {{
        type nat hook postrouting priority srcnat
        oifname "{wan}" ip saddr {{ {here} }} ip daddr != {{ {there} }} masquerade
    }}
}}
"""
