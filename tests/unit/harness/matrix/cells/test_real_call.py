# SPDX-License-Identifier: Apache-2.0
"""The gates of a cell's call between browsers, and what its pages report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sojourn.harness.matrix.cells.real_call import estimates, proven, seen_by_ends
from sojourn.scoring.packets.pcapng import CE, ECT1, NOT_ECT
from sojourn.traffic.spec import Call

T0, SECONDS = 1000.0, 10.0
STUN, RTP = 1, 128


def way(*packets: tuple[int, int]) -> pl.DataFrame:
    """Packets of one direction, by first byte and ECN field, a second apart."""
    rows = [(round((T0 + n) * 1e9), first, ecn) for n, (first, ecn) in enumerate(packets)]
    return pl.DataFrame(rows, schema={"t_ns": pl.Int64, "first": pl.UInt8, "ecn": pl.UInt8}, orient="row")


def second(t: float, **marks: int) -> dict[str, Any]:
    return {
        "t": T0 + t,
        "event": "call",
        "detail": {"pair": {"availableOutgoingBitrate": 1e6 + t}} | ({"marks": marks} if marks else {}),
    }


def ends(server: int | None, client: int | None) -> dict[str, list[Any]]:
    """Both ends' reports in which so many CCFB messages arrive; None: of a browser that counts none."""
    return {
        end: [second(t, **({} if got is None else {"ccfbMessagesReceived": 5 + n * got})) for n, t in enumerate((0, 9))]
        for end, got in (("server", server), ("client", client))
    }


MEDIA = way((STUN, NOT_ECT), (RTP, ECT1), (RTP, CE))


@pytest.mark.parametrize(
    ("call", "ways", "reports", "failed"),
    [
        (Call(rtt_us=0, cc="scream"), (MEDIA, MEDIA), ends(300, 300), []),
        (Call(rtt_us=0, cc="scream"), (MEDIA, way((RTP, NOT_ECT))), ends(300, 300), ["call up ect1"]),
        (Call(rtt_us=0, cc="scream"), (way((STUN, NOT_ECT)), MEDIA), ends(300, 300), ["call down ect1"]),
        (Call(rtt_us=0, cc="scream"), (MEDIA, MEDIA), ends(0, 300), ["call's feedback received (server)"]),
        (Call(rtt_us=0, cc="scream"), (MEDIA, MEDIA), ends(300, None), ["call's feedback received (client)"]),
        (Call(rtt_us=0, ecn="ect1"), (way((STUN, ECT1), (RTP, CE)), way((RTP, ECT1))), ends(None, None), []),
        (Call(rtt_us=0, ecn="ect1"), (MEDIA, way((RTP, ECT1))), ends(None, None), ["call down ect1"]),
        (Call(rtt_us=0), (way((RTP, NOT_ECT)), way((RTP, ECT1))), ends(None, None), ["call up not-ect"]),
    ],
)
def test_packets_and_feedback_prove_what_the_call_is(
    call: Call, ways: tuple[pl.DataFrame, pl.DataFrame], reports: dict[str, list[Any]], failed: list[str]
) -> None:
    gates = proven(call, ways, reports, T0, SECONDS)
    assert [gate.name for gate in gates if not gate.ok] == failed
    assert len(gates) == (4 if call.cc == "scream" else 2)


def test_the_rates_that_the_ends_allow_are_read_from_their_pages(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    others = {"t": T0 + 1, "event": "camera", "detail": []}
    for file, times in ((tmp_path / "far/player.jsonl", (-1, 2)), (tmp_path / "player.jsonl", (3, 11))):
        file.write_text("".join(json.dumps(line) + "\n" for line in [*map(second, times), others]))
    table = estimates(seen_by_ends(tmp_path), T0, SECONDS)
    assert table.rows() == [(2, 0, 1e6 + 2), (3, 1, 1e6 + 3)], "the server's end sends down; within the cell only"
