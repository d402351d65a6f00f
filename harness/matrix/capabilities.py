# SPDX-License-Identifier: Apache-2.0
"""Which cells which lab can run. Pure."""

from __future__ import annotations

from sojourn.harness.matrix.cell import Cell, Hop
from sojourn.traffic.contender import CONTENDERS

LABS = ("sim", "virtual", "apu")
"""In the order of preference."""


def lacking(cell: Cell, lab: str) -> str:
    """Return what `lab` lacks for `cell`, empty if nothing: `no way to …`."""
    if lab == "sim":
        return ""
    boxes = working_hops(cell)
    first = boxes[0] if boxes else Hop()
    lacks = {
        f"only one middlebox, not {len(boxes)}": len(boxes) > 1,
        "no middlebox that shapes one direction alone": not (first.down and first.up),
        "no middlebox that changes ECN field or DSCP": bool(first.mangle),
        f"only one RTT, not {len(cell.rtts_us)}": len(cell.rtts_us) > 1,
        "no flows whose sending rate has a limit": any(flow.pacing_bps for flow in cell.flows),
        "no filter of the queue's own": first.host_queue,
        "no ports of a flow's own choice": any(flow.from_port for flow in cell.flows),
        "no qdisc of the sending hosts' own": bool(cell.sender_queue),
        "no short flows": cell.short_flows is not None,
        "no segmentation offloads": cell.offloads,
        "no IPsec": cell.tunnel == "ipsec",
        "no packet slots": any(hop.slots for hop in boxes),
        "no flows but the kernel's TCP": any(flow.contender not in CONTENDERS for flow in cell.flows),
        "no tap of single packets": cell.per_packet,
        "no setting of the senders' pacing": cell.pacing_percent is not None,
        "no OpenVPN": cell.tunnel.startswith("openvpn"),
        "no probe of its own jitter that a path's bursts would spare": any(
            way.path.slot_us or way.path.jitter_us for way in (first.down, first.up) if way
        ),
    }
    return next((what for what, true in lacks.items() if true), "")


def working_hops(cell: Cell) -> list[Hop]:
    """The middleboxes that do more than forward."""
    return [hop for hop in cell.hops if hop != Hop()]
