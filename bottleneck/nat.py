# SPDX-License-Identifier: Apache-2.0
"""The way to the internet through a router: who is masqueraded, and whose packets alone the shaper takes.

A packet that leaves by the WAN side has the router's address already when it meets the queue, so the shaped class is
chosen before, where nftables still sees the host's own address: HTB takes a packet to the class in its priority.
"""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.traffic.ports import IRTT_UNSHAPED

TABLE = "sojourn"
UNDO = [["nft", "delete", "table", "ip", TABLE]]


def table(lan: str, wan: str, near: Sequence[str], far: Sequence[str]) -> str:
    """Return the nftables table of a lab: `near` are the addresses behind `lan`, `far` those behind `wan`.

    What goes to `far` keeps its address: captures there tell flows by it.
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
