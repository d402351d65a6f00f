# SPDX-License-Identifier: Apache-2.0
"""The gates of a call take the codepoint from its sender: GCC's Not-ECT, nftables' mark, SCReAM's ECT(1) media."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from sojourn.scoring.call_marks import COUNTERS
from sojourn.scoring.gates.calls import call, media
from sojourn.scoring.packets import pcapng
from sojourn.scoring.validity import Gate, Limits
from tests.unit.harness.bundle import frames

SPAN = (100.0, 110.0)
STUN, DTLS, RTP, RTCP = 0x00, 0x16, 0x90, 0x8F
ECT1, NOT_ECT = 1, 0


def sent(*kinds: tuple[int, int, int]) -> pl.DataFrame:
    """Return packets of one end from (number, ECN field, first byte of the payload)."""
    rows = [{"t_ns": 105 * 10**9, "ecn": ecn, "first": first} for number, ecn, first in kinds for _ in range(number)]
    return pl.DataFrame(rows, pcapng.SCHEMA)


L4S = sent((900, ECT1, RTP), (95, ECT1, RTCP), (5, NOT_ECT, RTP), (30, NOT_ECT, STUN), (10, NOT_ECT, DTLS))
GCC = sent((900, NOT_ECT, RTP), (100, NOT_ECT, RTCP), (40, NOT_ECT, STUN))
MARKED = sent((1000, ECT1, RTP), (40, ECT1, STUN))


def counted(messages: int) -> pl.DataFrame:
    """Return the counters at both ends of the timeline, of which only those of messages grow."""
    return pl.DataFrame(
        [{"t": t, **dict.fromkeys(COUNTERS, 0), "ccfb_received": n} for t, n in ((99, 7), (110, 7 + messages))]
    )


def judged(
    client: pl.DataFrame | None, server: pl.DataFrame | None, marks: dict[str, Any], **of_call: str
) -> list[Gate]:
    """Return the gates that a call with these packets at its ends fails."""
    setting = SimpleNamespace(
        call={"ecn": "not-ect"} | of_call, span=SPAN, live=False, scream=of_call.get("cc") == "scream"
    )
    run: Any = SimpleNamespace(
        setting=setting, behind=client is not None and SimpleNamespace(back=client),
        before=server is not None and SimpleNamespace(victim=server), marks=marks, limits=Limits(),
    )  # fmt: skip
    return [gate for gate in call(run) if not gate.ok]


def test_each_sender_is_held_to_its_own_codepoint() -> None:
    heard = {"client": counted(250), "server": counted(250)}
    assert judged(L4S, L4S, heard, cc="scream") == []
    assert judged(GCC, GCC, {}) == judged(MARKED, MARKED, {}, ecn="ect1") == []


@pytest.mark.parametrize(
    ("client", "server", "of_call", "ends"),
    [
        (GCC, GCC, {"cc": "scream"}, ["client", "server"]),
        (L4S, GCC, {"cc": "scream"}, ["server"]),
        (GCC, L4S, {"cc": "scream"}, ["client"]),
        (L4S, None, {"cc": "scream"}, ["server"]),
        (sent((98, ECT1, RTP), (2, NOT_ECT, RTCP)), L4S, {"cc": "scream"}, ["client"]),
        (sent((40, ECT1, STUN)), L4S, {"cc": "scream"}, ["client"]),
        (L4S, GCC, {}, ["client"]),
        (GCC, MARKED, {}, ["server"]),
        (MARKED, GCC, {"ecn": "ect1"}, ["server"]),
    ],
)
def test_an_end_that_marks_otherwise_is_named(
    client: pl.DataFrame | None, server: pl.DataFrame | None, of_call: dict[str, str], ends: list[str]
) -> None:
    heard = {"client": counted(250), "server": counted(250)} if of_call.get("cc") else {}
    failed = judged(client, server, heard, **of_call)
    assert [gate.code for gate in failed] == ["call-marked"] * len(ends)
    assert all(f"({end})" in gate.reason for gate, end in zip(failed, ends, strict=True))


@pytest.mark.parametrize("log", [None, counted(0)])
def test_an_end_without_feedback_is_named(log: pl.DataFrame | None) -> None:
    (failed,) = judged(L4S, L4S, {"client": counted(1), "server": log}, cc="scream")
    assert failed.code == "call-feedback" and "(server)" in failed.reason


def test_media_is_known_by_its_first_byte(tmp_path: Path) -> None:
    """By the ranges of RFC 7983; a short packet, and any of TCP, is none."""
    kinds = (STUN, 3, DTLS, 63, 64, 127, 128, RTP, RTCP, 191, 192)
    packets = [frames.ipv4(frames.udp(bytes([kind]) * 30), pcapng.UDP) for kind in kinds]
    others = [frames.ipv4(frames.udp(b""), pcapng.UDP), frames.ipv4(frames.tcp(bytes([RTP])), pcapng.TCP)]
    read = pcapng.read(frames.capture(tmp_path / "call.pcapng.zst", [*packets, *others], 0)).packets
    assert read["first"].to_list() == [*kinds, 0, 0]
    assert media(read)["first"].to_list() == [128, RTP, RTCP, 191]
    six = frames.ipv6(frames.udp(bytes([RTP])), pcapng.UDP)
    assert pcapng.read(frames.capture(tmp_path / "six.pcapng.zst", [six], 0)).packets["first"].to_list() == [RTP]
