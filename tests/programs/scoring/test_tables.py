# SPDX-License-Identifier: Apache-2.0
"""The tables of a recorded run hold what their columns say, and agree with what is scored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.scoring.cell_tables import TABLES as CELL_TABLES
from sojourn.scoring.evidence import Setting
from sojourn.scoring.packets.pcapng import CaptureError
from sojourn.scoring.packets.per_flow import goodput_bps
from sojourn.scoring.picture.judged import QUALITY
from sojourn.scoring.score import score_run
from sojourn.scoring.sound.judged_speech import COLUMNS as SPEECH_COLUMNS
from sojourn.scoring.sound.judged_speech import SPEECH
from sojourn.scoring.tables import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_its_columns_and_rows(run: Path, name: str) -> None:
    fetch = {"at": 1.5, "start": 1.8e9, "bytes": 70_000, "port": 50_000, "fct_s": 0.4}
    bulk = json.loads((run / "bulk.json").read_text())
    bulk["flows"].append({"contender": "web", "phase": "prague", "sender_port": 5100, "fetches": [fetch]})
    probe = {"probe": "self", "t": 1.8e9, "port": 50_001, "http_t": 1.8e9, "http_ms": 80.5}
    bulk["flows"].append({"contender": "rpm", "phase": "prague", "probes": [probe]})
    (run / "bulk.json").write_text(json.dumps(bulk))
    decision = {"segment": 1, "height": 240, "rate_bps": 298224, "buffer_s": 0, "throughput_bps": None, "stalls": 0}
    times = dict.fromkeys(("ttfb_ms", "fcp_ms", "lcp_ms", "dcl_ms", "load_ms"))
    load = {"page": 1, "url": "https://a.test/", "requests": 1, "bytes": 9, "until": 1.8e9, "errors": 0, "failed": None}
    with (run / "player.jsonl").open("a") as log:
        for event, detail in (("decision", decision), ("load", {**load, **times})):
            log.write(json.dumps({"t": 1.8e9, "event": event, "detail": detail}) + "\n")
    (run / QUALITY).write_text("t,phase,height,frame,ssim,vmaf\n0.5,solo-1,720,15,0.97,\n")
    (run / SPEECH).write_text(f"{','.join(SPEECH_COLUMNS)}\n0.5,4.5,solo-1,client,3,61.5,4.25,4.5\n")
    (run / "game-client.jsonl").write_text('{"sent": 0, "t_ns": 1800000000000000000, "bytes": 40}\n')
    (run / "game-server.jsonl").write_text("")
    table = TABLES[name].of(run)
    assert table.schema == TABLES[name].columns
    assert (table.height > 0) == (name != "sound")  # a video's sound is not recorded; test_call_score has a call's


@pytest.mark.parametrize("name", [name for name in TABLES if name != "phases"])
def test_what_was_not_recorded_is_an_empty_table_of_the_same_columns(run: Path, name: str) -> None:
    for file in TABLES[name].files:
        if file not in ("timeline.json", "lab.json"):
            (run / file).unlink(missing_ok=True)
    table = TABLES[name].of(run)
    assert table.height == 0 and table.columns == list(TABLES[name].columns)


def test_they_agree_with_the_scores(run: Path) -> None:
    scores = score_run(run)
    lab = Setting.read(run).lab
    for phase in (phase for phase in scores.phases if phase.contender):
        start, end = scores.t0 + phase.start, scores.t0 + phase.end
        within = pl.col("t").is_between(start, end, closed="left")
        packets = TABLES["packets"].of(run).filter(side="client", src=lab["addresses"]["sender"])
        assert goodput_bps(packets, start, end) / 1e6 == pytest.approx(phase.contender_mbps, rel=0.01)
        probes = TABLES["probes"].of(run).filter(pl.col("path") == "bottleneck", within)
        assert probes["rtt_ms"].median() == pytest.approx(phase.rtt_p50_ms, abs=0.5)
        sojourn = TABLES["sojourn"].of(run).filter(pl.col("of") == "contender", within)
        (row,) = [row for row in scores.sojourn if (row.phase, row.of) == (phase.name, "contender")]
        assert sojourn.height == row.packets and sojourn["marked"].sum() == row.marked
    shown = TABLES["frames"].of(run)
    assert set(shown["height"].drop_nulls()) <= set(lab["clip"]["heights"])
    assert shown["frame"].drop_nulls().is_sorted()


def test_a_damaged_file_is_named(run: Path) -> None:
    (run / "client.pcapng.zst").write_bytes(b"no capture")
    with pytest.raises(CaptureError, match=r"client\.pcapng\.zst"):
        TABLES["packets"].of(run)


def test_a_judged_picture_is_on_the_clock_of_the_run(run: Path) -> None:
    (run / QUALITY).write_text("t,phase,height,frame,ssim,vmaf\n0.5,solo-1,720,15,0.97,\n")
    (row,) = TABLES["pictures"].of(run).rows()
    assert row == (Setting.read(run).phases[0].start + 0.5, "solo-1", 720, 15, 0.97, None)


def test_events_keep_what_came_with_them(run: Path) -> None:
    with (run / "player.jsonl").open("a") as file:
        file.write('{"t": 1795273199.5, "event": "qualitychange", "detail": {"to": "medium"}}\n')
    last = TABLES["player"].of(run).row(-1, named=True)
    assert last["event"] == "qualitychange" and json.loads(last["detail"]) == {"to": "medium"}


def test_the_page_describes_them_as_they_are() -> None:
    page = (CHECKOUT / "docs" / "data.md").read_text()
    for name, table in (*TABLES.items(), *CELL_TABLES.items()):
        assert table.described(name) in page, f"docs/data.md: {name} is described otherwise there"


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_from_the_files_that_it_names(run: Path, name: str) -> None:
    """Whoever opens a table has them checked against the manifest, and no others."""
    shutil.copy(run / "ss.jsonl", run / "ss-up.jsonl")
    whole = TABLES[name].of(run)
    for file in run.iterdir():
        if file.name not in TABLES[name].files and file.is_file():
            file.unlink()
    assert TABLES[name].of(run).equals(whole)
