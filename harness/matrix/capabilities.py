# SPDX-License-Identifier: Apache-2.0
"""Which cells which lab can run. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.spec import RecordedCall
from sojourn.traffic.user_program import is_user_program

MATRIX_LABS = ("sim", "virtual", "apu")
"""In order of preference."""


def missing_capability(cell: Cell, lab: str) -> str:
    """Return what `lab` lacks for `cell`, such as `no short flows`; empty if nothing."""
    if lab == "sim" and not (has_user_program(cell) or needs_browsers(cell)):
        return ""
    if lab == "apu" and has_user_program(cell):
        return "no programs of yours"
    if lab != "sim" and cell.call is not None and cell.call.sound:
        return "no sound of a call"
    if lab != "sim" and cell.bunching_us:
        return "no bunching that a cell sets"
    return missing_in_real_time(cell)


def able_labs(cells: Iterable[Cell]) -> tuple[str, ...]:
    """Return the labs that can run any of these cells, the preferred one first."""
    every = tuple(cells)
    return tuple(lab for lab in MATRIX_LABS if any(not missing_capability(cell, lab) for cell in every))


def missing_in_real_time(cell: Cell) -> str:
    """Return what the code of real-time labs lacks for `cell`, whatever the lab; empty if nothing."""
    boxes = working_hops(cell)
    first = boxes[0] if boxes else Hop()
    missing = {
        f"only one middlebox, not {len(boxes)}": len(boxes) > 1,
        "no middlebox that shapes one direction alone": not (first.down and first.up),
        "no middlebox that changes the ECN field or DSCP": bool(first.mangle),
        f"only one RTT, not {len(cell.rtts_us)}": len(cell.rtts_us) > 1,
        "no flows with a limited sending rate": any(flow.pacing_bps for flow in cell.flows),
        "no filter that maps a host to one flow queue": first.host_queue,
        "no selectable source port of a flow": any(flow.from_port for flow in cell.flows),
        "no root qdisc on the sending hosts": bool(cell.sender_queue),
        "no short flows": cell.short_flows is not None,
        "no recorded call": isinstance(cell.call, RecordedCall),
        "no call with DSCP 45": cell.call is not None and cell.call.ecn == "nqb",
        "no segmentation offloads": cell.offloads,
        "no IPsec": cell.tunnel == "ipsec",
        "no delivery trace": any(hop.slots for hop in boxes),
        "no flows other than the kernel's TCP and your programs": any(
            flow.contender not in CONTENDERS and not is_user_program(flow.contender) for flow in cell.flows
        ),
        "no programs of yours in a tunnel": bool(cell.tunnel) and has_user_program(cell),
        "no capture of single packets": cell.per_packet,
        "no setting of the senders' pacing": cell.pacing_percent is not None,
        "no OpenVPN": cell.tunnel.startswith("openvpn"),
        "no probe of its own jitter that bypasses the path's bursts": any(
            way.path.slot_us or way.path.jitter_us for way in (first.down, first.up) if way
        ),
    }
    return next((what for what, true in missing.items() if true), "")


def has_user_program(cell: Cell) -> bool:
    """Whether a flow of the cell is a user's own program."""
    return any(is_user_program(flow.contender) for flow in cell.flows)


def needs_browsers(cell: Cell) -> bool:
    """Whether the cell has a call that only browsers make: by SCReAM, or with sound."""
    return cell.call is not None and (cell.call.cc == "scream" or cell.call.sound)


def working_hops(cell: Cell) -> list[Hop]:
    """Return the middleboxes that do more than forward."""
    return [hop for hop in cell.hops if hop != Hop()]
