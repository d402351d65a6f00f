# SPDX-License-Identifier: Apache-2.0
"""A rig: what one laboratory's copy of a cell has that nobody specifies to the microsecond, drawn by the seed.

Results of a fixed path repeat to the bit and still belong to that path alone: where a packet lasts about as long as an
AQM's threshold, 1 % of RTT decides who wins. A seed therefore stands for a rig, and an interval over seeds covers rigs.
"""

from __future__ import annotations

import random
from typing import Annotated, TypeVar

from pydantic import Field

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import bunched
from sojourn.bottleneck.spec import Bottleneck, Direction, Hop
from sojourn.bottleneck.units import format_time
from sojourn.traffic.spec import Call, Flow, Probe, ShortFlows, Specified

RTT_SHARE = 0.05
"""The RTT differs from the specified one by at most this share."""
START_S = 1.0
"""Each flow starts 0 to this many s late, and so at any phase of an AQM's timers and of other flows."""
BUNCHING_US = (50, 500)
"""Range of the longest time between two releases of a host's packets, µs: interrupt coalescing, as in NICs."""
_LATE_SHARE = 0.05
"""Of a short flow's time: the most that it may start late."""
_STEPS = (0.7548776662466927, 0.5698402909980532)
"""Steps from seed to seed of the RTT and of the bunching, as shares of their ranges. The points of any consecutive
seeds are spread evenly: M. Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences", 2018 (R2)."""
_Sender = TypeVar("_Sender", Flow, ShortFlows, Call, Probe)


class Rig(Specified):
    """One drawn laboratory. The default is the exact one, with nothing drawn."""

    rtt_factor: float = Field(default=1, ge=1 - RTT_SHARE, le=1 + RTT_SHARE)
    """Factor of every RTT."""
    late_s: tuple[Annotated[float, Field(ge=0, le=START_S)], ...] = ()
    """How much later than specified each flow of a cell starts, s."""
    bunching_us: int = Field(default=0, ge=0, le=BUNCHING_US[1])
    """Longest time between two releases of packets at each host, µs; 0: packets are released at once."""

    def applied(self, cell: Cell) -> Cell:
        """Return the cell as this rig runs it."""
        if self == EXACT:
            return cell
        flows = (
            self._moved(flow).model_copy(update={"start_s": round(flow.start_s + late_s, 6)})
            for flow, late_s in zip(cell.flows, self.late_s, strict=True)
        )
        changed = {
            "flows": tuple(flows),
            "probes": tuple(map(self._moved, cell.probes)),
            "call": cell.call and self._moved(cell.call),
            "short_flows": cell.short_flows and self._moved(cell.short_flows),
            # A sending host with a qdisc of its own cannot also bunch what it sends.
            "hops": tuple(self._hop(hop, self.bunching_us if cell.sender_queue else 0) for hop in cell.hops),
            "bunching_us": 0 if cell.sender_queue else max(cell.bunching_us, self.bunching_us),
        }
        return Cell.model_validate(cell.model_copy(update=changed))

    def path(self, specified: Bottleneck) -> Bottleneck:
        """Return a bottleneck with the delay of this rig; hosts bunch packets, which is the lab's part."""
        down, up = (self._way(way, 0) for way in (specified.down, specified.up))
        return Bottleneck(down=down, up=up)

    def _moved(self, one: _Sender) -> _Sender:
        return one.model_copy(update={"rtt_us": round(one.rtt_us * self.rtt_factor)})

    def _hop(self, hop: Hop, bunching_us: int) -> Hop:
        ways = {name: way and self._way(way, bunching_us) for name, way in (("down", hop.down), ("up", hop.up))}
        return hop.model_copy(update=ways)

    def _way(self, way: Direction, bunching_us: int) -> Direction:
        delay_us = max(round(way.path.delay_us * self.rtt_factor), way.path.jitter_us)
        path = way.path.model_copy(update={"delay_us": delay_us})
        return way.model_copy(update={"path": bunched(path, bunching_us)})

    def words(self) -> dict[str, str]:
        """Return what was drawn, for the manifest: name → value with its unit."""
        rtt = {} if self.rtt_factor == 1 else {"RTT": f"{100 * (self.rtt_factor - 1):+.2f}%"}
        starts = {f"start of flow {n}": f"{late_s:.3f} s late" for n, late_s in enumerate(self.late_s, 1)}
        bunching = {"bunching": f"up to {format_time(self.bunching_us)}"} if self.bunching_us else {}
        return rtt | starts | bunching


EXACT = Rig()


def coverage(*, drawn: bool) -> str:
    """Return what an interval over seeds covers, as a sentence."""
    if not drawn:
        return "All seeds have exactly the specified RTT: intervals cover chance within one rig, not other rigs."
    least_us, most_us = BUNCHING_US
    return (
        f"Each seed stands for a rig: RTT within {RTT_SHARE:.0%} of the specified, starts within {START_S:g} s, in "
        f"simulated time packets bunched for up to {least_us / 1e3:g} to {most_us / 1e3:g} ms; intervals cover rigs."
    )


def draw(seed: int, cell: Cell | None = None, *, bunching: bool = True) -> Rig:
    """Return the rig that `seed` stands for.

    It is the same for all cells but for the starts of their flows, so that differences between cells are paired.

    Args:
        cell: the cell whose flows start late, if any.
        bunching: whether packets are bunched too; hosts in real time do that themselves.
    """
    rtt, longest = (0.5 + seed * step for step in _STEPS)
    least_us, most_us = BUNCHING_US
    late = random.Random(f"late {seed}")
    return Rig(
        rtt_factor=round(1 + RTT_SHARE * (2 * (rtt % 1) - 1), 6),
        late_s=tuple(_late_s(flow, cell.seconds, late) for flow in cell.flows) if cell else (),
        bunching_us=round(least_us + (longest % 1) * (most_us - least_us)) if bunching else 0,
    )


def _late_s(flow: Flow, end_s: float, late: random.Random) -> float:
    runs_s = (flow.stop_s or end_s) - flow.start_s
    return round(late.random() * min(START_S, _LATE_SHARE * runs_s), 6)
