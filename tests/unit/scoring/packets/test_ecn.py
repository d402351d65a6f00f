# SPDX-License-Identifier: Apache-2.0
"""What flows did with ECN: real captures of CUBIC and Prague, then handshakes and faults by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from sojourn.scoring.packets import pcapng
from sojourn.scoring.packets.ecn import EcnFlow, ecn_flows
from sojourn.scoring.packets.pcapng import ACK, AE, CE, CWR, ECE, ECT0, ECT1, NOT_ECT, RST, SYN

SENDER, RECEIVER = 1, 2
#: ACE of 0 to 7 as flags.
ACE = [AE * (n >> 2 & 1) | CWR * (n >> 1 & 1) | ECE * (n & 1) for n in range(8)]
Packet = tuple[bool, int, int, int]
"""Whether it goes down, flags, payload, codepoint."""


def capture(packets: Sequence[Packet]) -> pl.DataFrame:
    rows = [
        {"t_ns": number, "src": SENDER if down else RECEIVER, "dst": RECEIVER if down else SENDER}
        | {"sport": 40000 if down else 5201, "dport": 5201 if down else 40000, "proto": 6, "ecn": ecn}
        | {"flags": flags, "payload": payload, "ip_bytes": 40 + payload, "seq": 0}
        for number, (down, flags, payload, ecn) in enumerate(packets)
    ]
    return pl.DataFrame(rows, schema=pcapng.SCHEMA)


def flow(syn: int, syn_ack: int, data: Sequence[tuple[int, int]], acks: Sequence[int] = (), *, cwr: int = 0) -> EcnFlow:
    """Return the sender's flow: `data` has the codepoints of each packet as sent and as it arrived."""
    hello: list[Packet] = [(True, SYN | syn, 0, NOT_ECT), (False, SYN | ACK | syn_ack, 0, NOT_ECT)]
    hello.append((True, ACK | CWR, 0, NOT_ECT))  # the ACK that ends the handshake is no count
    back: list[Packet] = [(False, ACK | flags, 0, NOT_ECT) for flags in acks]
    near, far = (
        capture([*hello, *((True, ACK | CWR * (n < cwr), 1000, way[side]) for n, way in enumerate(data)), *back])
        for side in (0, 1)
    )
    (found,) = ecn_flows(near, far, [SENDER])
    return found


def test_accurate_ecn_counts_what_the_receiver_reports_also_around_the_end_of_its_counter() -> None:
    data = [(ECT1, ECT1)] * 3 + [(ECT1, CE)] * 12
    found = flow(AE | CWR | ECE, CWR, data, [ACE[it] for it in (5, 6, 6, 4, 1)])  # +0 +1 +0 +6 +5
    assert (found.offered, found.negotiated, found.ect1, found.marked, found.echoed) == ("AccECN", "AccECN", 15, 12, 12)
    assert found.findings == () and found.answered is None


def test_classic_ecn_counts_echoes_and_answers() -> None:
    data = [(ECT0, CE)] * 2 + [(ECT0, ECT0)] * 8
    found = flow(CWR | ECE, ECE, data, [ECE, ECE, 0], cwr=1)
    assert (found.offered, found.negotiated, found.marked, found.echoed, found.answered) == ("ECN", "ECN", 2, 2, 1)
    assert found.findings == ()


@pytest.mark.parametrize(
    ("syn", "syn_ack", "accepted"),
    [
        (AE | CWR | ECE, CWR, "AccECN"),
        (AE | CWR | ECE, CWR | ECE, "AccECN"),
        (AE | CWR | ECE, AE, "AccECN"),
        (AE | CWR | ECE, AE | CWR, "AccECN"),
        (AE | CWR | ECE, ECE, "ECN"),
        (AE | CWR | ECE, AE | ECE, "ECN"),
        (AE | CWR | ECE, 0, "none"),
        (AE | CWR | ECE, AE | CWR | ECE, "none"),  # a broken server that echoes what it got
        (CWR | ECE, ECE, "ECN"),
        (CWR | ECE, CWR, "none"),
        (0, ECE, "none"),
    ],
)
def test_the_handshake_is_read_as_the_rfcs_table_has_it(syn: int, syn_ack: int, accepted: str) -> None:
    assert flow(syn, syn_ack, [(NOT_ECT, NOT_ECT)]).negotiated == accepted


@pytest.mark.parametrize(
    ("found", "finding"),
    [
        (flow(0, 0, [(ECT1, ECT1)]), "ECN-capable data without negotiation"),
        (flow(CWR | ECE, ECE, [(ECT1, ECT1)]), "ECT(1) without accurate ECN"),
        (flow(AE | CWR | ECE, CWR, [(ECT1, ECT1), (ECT0, ECT0)]), "both ECT(0) and ECT(1)"),
        (flow(AE | CWR | ECE, CWR, [(NOT_ECT, NOT_ECT)]), "negotiated, but data is Not-ECT"),
        (flow(AE | CWR | ECE, 0, [(NOT_ECT, NOT_ECT)]), "offered, but not accepted"),
        (flow(AE | CWR | ECE, CWR, [(ECT1, NOT_ECT)]), "bleached"),
        (flow(AE | CWR | ECE, CWR, [(ECT1, CE)], [ACE[5]]), "marks are not echoed"),
        (flow(CWR | ECE, ECE, [(ECT0, CE)], [ECE]), "no answer to echoes"),
    ],
)
def test_what_contradicts_the_rfcs_is_named(found: EcnFlow, finding: str) -> None:
    assert found.findings == (finding,)


def test_a_reset_reports_no_marks() -> None:
    found = flow(AE | CWR | ECE, CWR, [(ECT1, CE)] * 5, [ACE[5], ACE[5], RST])
    assert (found.marked, found.echoed, found.findings) == (5, 0, ("marks are not echoed",))


def test_a_connection_older_than_the_capture_has_no_offer_that_was_refused() -> None:
    packets = [capture([(True, ACK, 1000, NOT_ECT), (False, SYN | ACK, 0, NOT_ECT)]) for _side in range(2)]
    (found,) = ecn_flows(*packets, [SENDER])
    assert (found.offered, found.negotiated, found.findings) == (None, "none", ())


def test_a_real_prague_negotiates_accurate_ecn_over_ipv6() -> None:
    packets = pcapng.read(Path(__file__).parents[1] / "data" / "ipv6.pcapng.zst").packets
    down = packets.filter(pl.col("payload") > 0).group_by("src").len().sort("len")["src"][-1]
    found = next(it for it in ecn_flows(packets, packets, [down]) if it.ect1)
    assert (found.offered, found.negotiated, found.packets) == ("AccECN", "AccECN", found.arrived)
