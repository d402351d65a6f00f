# SPDX-License-Identifier: Apache-2.0
"""The gates of a cell's call between browsers, and what its pages report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sojourn.apps.standins.call.camera import FRAMES
from sojourn.hardware.machine.ip import UDP_HEADERS
from sojourn.harness.matrix.cells.real_call import crossed, estimates, pictures, proven, seen_by_ends, talks, tones
from sojourn.scoring.packets.pcapng import CE, ECT1, NOT_ECT, SCHEMA, UDP
from sojourn.scoring.sound.cell_tones import tone_scores
from sojourn.scoring.sound.ear import Sound
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


def captured(*packets: tuple[float, int, int], headers: int = UDP_HEADERS[4]) -> pl.DataFrame:
    """A call's packets of one direction, by time (s from T0), fingerprint and ECN field; 1000 bytes of payload each."""
    rows = [
        {"t_ns": round((T0 + t) * 1e9), "src": 1, "sport": 1, "dst": 2, "dport": 2, "proto": UDP, "payload": 1000}
        | {"ip_bytes": 1000 + headers, "ecn": ecn, "ip_id": 0, "fingerprint": one}
        for t, one, ecn in packets
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def test_a_packet_is_in_the_bottleneck_from_one_capture_to_the_other_less_the_path() -> None:
    ticks = [(9.0 + n, 100 + n, ECT1) for n in range(6)]  # what is on its way when a capture ends is not judged
    down = captured((1, 1, ECT1), (2, 2, ECT1), (3, 3, ECT1), *ticks)
    behind = captured((1.015, 1, ECT1), (3.012, 3, CE), *((t + 0.01, *rest) for t, *rest in ticks))
    table = crossed((down, captured()), (behind, captured()), (10, 10), T0, SECONDS)
    assert table.head(3).rows() == [(1, 0, 1000, 5000, 0), (2, 0, 1000, None, 0), (3, 0, 1000, 2000, 1)]
    assert table["t_s"].max() <= SECONDS, "within the cell only"


@pytest.mark.parametrize("headers", UDP_HEADERS.values())
def test_the_bytes_of_a_calls_packet_are_its_payload_in_both_ip_versions(headers: int) -> None:
    sent, behind = (captured((t, 1, ECT1), (9 + t, 2, ECT1), headers=headers) for t in (1, 1.01))
    empty = captured()
    assert talks((behind, empty), T0, SECONDS)["bytes"][0] == 1000
    assert crossed((sent, empty), (behind, empty), (0, 0), T0, SECONDS)["bytes"][0] == 1000


def frames(event: str, *seen: tuple[int, float]) -> dict[str, Any]:
    return {"t": T0, "event": event, "detail": [[n % FRAMES, t * 1e6, (T0 + t) * 1e3] for n, t in seen]}


def test_a_picture_is_under_way_from_its_capture_until_the_other_page_has_it() -> None:
    taken = [(n, n / 31) for n in range(3 * FRAMES)]
    came = [(n, t + 0.05) for n, t in taken if n != 40]
    logs = {"server": [frames("camera", *taken)], "client": [frames("camera"), frames("delivered", *came)]}
    table = pictures(logs, T0, SECONDS)
    assert set(table["talk"]) == {0}
    lost = table.filter(pl.col("delay_us").is_null())
    assert lost["t_s"].to_list() == [pytest.approx(40 / 31, abs=1e-6)]
    assert table.drop_nulls()["delay_us"].to_list() == pytest.approx([50_000] * (table.height - 1), abs=1)
    assert table.height > 8 * 31


@pytest.mark.parametrize("until_s", [4.0, -9.0])
def test_a_picture_that_dies_loses_all_frames_until_the_end(until_s: float) -> None:
    """Of the last 2 s nothing is known: what was captured then may be under way."""
    taken = [(n, n / 31) for n in range(-31, 11 * 31)]
    came = [(n, t + 0.05) for n, t in taken if t < until_s]
    logs = {"server": [frames("camera", *taken)], "client": [frames("camera"), frames("delivered", *came)]}
    lost = pictures(logs, T0, SECONDS).filter(pl.col("delay_us").is_null())["t_s"]
    assert [lost.min(), lost.max()] == pytest.approx([max(0, until_s), SECONDS - 2], abs=1 / 31)
    assert lost.len() == pytest.approx((SECONDS - 2 - max(0, until_s)) * 31, abs=2)


def test_the_gaps_of_a_cells_sound_are_those_of_the_time_without_pauses() -> None:
    """The speaker speaks in the first of every 2 s, and half of it is a gap."""
    ms = [n / 1000 for n in range(8000)]
    gaps = [None if t % 2 >= 1 else t % 2 >= 0.5 for t in ms]
    ear = pl.DataFrame({"t": ms, "gap": gaps}).with_columns(pl.col("t") + T0, repeated=pl.lit(False))
    spoken = pl.DataFrame({"t": [T0 + n / 50 for n in range(400)], "delay_ms": [40.0] * 400})
    table = tones([Sound(spoken, ear), None], T0, SECONDS)
    assert tone_scores(table, (0.0, 8.0))[0]["ear_gap_share"] == pytest.approx(0.5, abs=0.01)
