# SPDX-License-Identifier: Apache-2.0
"""What each flow did with ECN, from the captures of both ends of a bottleneck. Pure.

For every flow with data: what its SYN offered, what the SYN/ACK accepted, the codepoints that its packets left with,
what arrived with CE, what the receiver echoed, and whether the sender answered. Sources: RFC 3168 (6.1: classic
ECN), RFC 9768 (3.1, Tables 2 and 3: the handshake of accurate ECN; 3.2.2: the ACE field).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from sojourn.scoring.packets.pcapng import ACK, AE, CE, CWR, ECE, ECT0, ECT1, NOT_ECT, RST, SYN, TCP
from sojourn.scoring.packets.per_flow import FLOW

_FIELD: Final = AE | CWR | ECE
_FIRST_ACE: Final = 5
"""The receiver's counter of CE packets starts at 5 (RFC 9768, 3.2.1)."""
_KEY: Final = "key"
_BLEACHED: Final = 0.01
"""Share of a flow's ECN-capable packets that may arrive as Not-ECT before it counts as bleached."""
#: (AE, CWR, ECE) of a SYN/ACK that accepts accurate ECN: RFC 9768, Table 2.
_ACCEPTS: Final = frozenset({CWR, CWR | ECE, AE, AE | CWR})


@dataclass(frozen=True)
class EcnFlow:
    """One direction of a connection, with ECN as offered, negotiated, sent, marked, echoed and answered.

    Numbers are of packets with payload, except `echoed`. None: not captured, or not a thing of this protocol.
    """

    flow: tuple[int, int, int, int, int]
    """Source address, its port, destination address, its port, protocol."""
    packets: int
    offered: str | None
    """`AccECN`, `ECN` or `none`, from the SYN of the connection."""
    negotiated: str | None
    """The same, from its SYN/ACK."""
    ect1: int
    ect0: int
    not_ect: int
    arrived: int
    marked: int
    """Packets that arrived with CE, less those that were sent with it."""
    bleached: int
    """Packets that arrived as Not-ECT beyond those that were sent so, at least."""
    echoed: int | None
    """Accurate ECN: CE packets that the receiver's ACE counter reported. Classic ECN: acknowledgements with ECE."""
    answered: int | None
    """Classic ECN: data packets with CWR."""

    @property
    def findings(self) -> tuple[str, ...]:
        """What contradicts the RFCs, or marks that were lost on the way to the sender; empty if all is as it should."""
        capable = self.ect1 + self.ect0
        return tuple(
            text
            for text, holds in (
                ("ECN-capable data without negotiation", capable > 0 and self.negotiated == "none"),
                ("ECT(1) without accurate ECN", self.ect1 > 0 and self.negotiated == "ECN"),
                ("both ECT(0) and ECT(1)", min(self.ect0, self.ect1) > _BLEACHED * self.packets),
                ("negotiated, but data is Not-ECT", self.negotiated in ("ECN", "AccECN") and not capable),
                ("offered, but not accepted", self.offered in ("ECN", "AccECN") and self.negotiated == "none"),
                ("bleached", self.bleached > _BLEACHED * capable > 0),
                ("marks are not echoed", self.marked > 0 and self.echoed == 0),
                ("no answer to echoes", self.negotiated == "ECN" and bool(self.echoed) and self.answered == 0),
            )
            if holds
        )


def ecn_flows(near: pl.DataFrame, far: pl.DataFrame, sources: Iterable[int]) -> list[EcnFlow]:
    """Return the flows with data of two captures, the most packets first.

    `near` is the capture on the side of the hosts with the addresses `sources`, `far` the other; both have the columns
    of `sojourn.scoring.packets.pcapng.SCHEMA`, in order of time. A flow is judged where it leaves and where it arrives.
    """
    own = pl.col("src").is_in(pl.Series(sorted(sources), dtype=pl.UInt128).implode())
    found = [
        *_one_way(near.filter(own), far.filter(own), back=far.filter(~own)),
        *_one_way(far.filter(~own), near.filter(~own), back=near.filter(own)),
    ]
    return sorted(found, key=lambda it: (-it.packets, it.flow))


def _one_way(sent: pl.DataFrame, came: pl.DataFrame, back: pl.DataFrame) -> list[EcnFlow]:
    """Return the flows of one direction: as sent, as they arrived, with their receiver's acknowledgements."""
    # Both ends of a handshake are needed, and either may be the opener.
    handshakes = _handshakes(pl.concat([sent, back]))
    there = {row[_KEY]: row for row in _counts(came)}
    echoes = _echoes(back)
    flows = []
    for row in _counts(sent):
        key = row[_KEY]
        arrived = there.get(key, {})
        hello = handshakes.get(min(key, _reverse(key)), _Handshake())
        echo = echoes.get(_reverse(key)) if key[4] == TCP else None
        accurate = hello.negotiated == "AccECN"
        flows.append(
            EcnFlow(
                flow=key,
                packets=row["packets"],
                offered=hello.offered,
                negotiated=hello.negotiated,
                **{name: row[name] for name in ("ect1", "ect0", "not_ect")},
                arrived=arrived.get("packets", 0),
                marked=max(0, arrived.get("ce", 0) - row["ce"]),
                bleached=max(0, arrived.get("not_ect", 0) - row["not_ect"]),
                echoed=None if echo is None or hello.negotiated is None else echo["ace" if accurate else "ece"],
                answered=row["cwr"] if hello.negotiated == "ECN" else None,
            )
        )
    return flows


def _reverse(key: tuple[int, int, int, int, int]) -> tuple[int, int, int, int, int]:
    source, sport, sink, dport, proto = key
    return sink, dport, source, sport, proto


def _counts(packets: pl.DataFrame) -> list[dict[str, Any]]:
    """Return packets with payload per flow, and how many of them have each codepoint and CWR."""
    codepoints = (("not_ect", NOT_ECT), ("ect1", ECT1), ("ect0", ECT0), ("ce", CE))
    table = (
        packets.filter(pl.col("payload") > 0)
        .group_by(FLOW)
        .agg(
            pl.len().alias("packets"),
            *((pl.col("ecn") == value).sum().alias(name) for name, value in codepoints),
            ((pl.col("flags") & CWR) != 0).sum().alias("cwr"),
        )
    )
    return [{**row, _KEY: tuple(row[name] for name in FLOW)} for row in table.iter_rows(named=True)]


@dataclass(frozen=True)
class _Handshake:
    offered: str | None = None
    negotiated: str | None = None


def _handshakes(packets: pl.DataFrame) -> dict[tuple[int, ...], _Handshake]:
    """Return the handshakes of TCP connections, each by the lesser of its two flows."""
    syns = packets.filter((pl.col("proto") == TCP) & (pl.col("flags") & SYN != 0)).sort("t_ns")
    found: dict[tuple[int, ...], _Handshake] = {}
    for row in syns.iter_rows(named=True):
        key = tuple(row[name] for name in FLOW)
        key = min(key, _reverse(key))
        field, known = row["flags"] & _FIELD, found.get(key, _Handshake())
        if not row["flags"] & ACK:
            # The last SYN counts: a repeated one may offer less.
            found[key] = _Handshake(_offer(field), known.negotiated)
        else:
            found[key] = _Handshake(known.offered, _accepted(known.offered, field))
    return found


def _offer(field: int) -> str:
    return "AccECN" if field == _FIELD else "ECN" if field == CWR | ECE else "none"


def _accepted(offered: str | None, field: int) -> str:
    if offered in ("AccECN", None) and field in _ACCEPTS:
        return "AccECN"
    return "ECN" if offered != "none" and field in (ECE, AE | ECE) else "none"


def _echoes(back: pl.DataFrame) -> dict[tuple[int, ...], dict[str, int]]:
    """Return, by the flow of the acknowledgements, how far the ACE counter advanced and how many have ECE.

    ACE has three bits, so each acknowledgement can report up to seven packets. In the opener's first one, which ends
    the handshake, it has another meaning (RFC 9768, Table 3); a reset's is not the counter.
    """
    bits = ((AE, 4), (CWR, 2), (ECE, 1))
    ace = sum((pl.when(pl.col("flags") & flag != 0).then(value).otherwise(0) for flag, value in bits), pl.lit(0))
    of_tcp = back.filter(pl.col("proto") == TCP)
    opened = of_tcp.filter(pl.col("flags") & (SYN | ACK) == SYN).select(FLOW).unique().with_columns(opened=True)
    acks = (
        of_tcp.filter(pl.col("flags") & (SYN | RST | ACK) == ACK)
        .with_columns(ace=ace, nth=pl.int_range(pl.len()).over(FLOW))
        .join(opened, on=FLOW, how="left", maintain_order="left")
        .filter((pl.col("nth") > 0) | pl.col("opened").is_null())
    )
    table = acks.group_by(FLOW).agg(
        ((pl.col("ace") - pl.col("ace").shift(1).fill_null(_FIRST_ACE)) % 8).sum().alias("ace"),
        (pl.col("flags") & ECE != 0).sum().alias("ece"),
    )
    return {tuple(row[name] for name in FLOW): row for row in table.iter_rows(named=True)}
