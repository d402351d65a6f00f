# SPDX-License-Identifier: Apache-2.0
"""The known run with both probes, Not-ECT and ECT(1): each is scored, and proven by what was on the wire."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import polars as pl
import pytest
import zstandard

from sojourn.scoring.packets import per_flow
from sojourn.scoring.packets.pcapng import CODEPOINTS, block
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.score import score_run
from sojourn.scoring.tables import TABLES
from sojourn.traffic.probes import INTERVAL_MS, PROBES, LatencyProbe
from tests.programs.scoring.conftest import BESIDE, SOLO, START

CLIENT, SERVER = "10.42.1.10", "10.42.2.10"
COUNT = round((SOLO + BESIDE + 2) * 1e3 / INTERVAL_MS)
#: ms that each queue adds while Prague competes: of Not-ECT probes, of ECT(1) ones.
WAITS = {"not-ect": 30.0, "ect1": 2.0}


def datagram(t: float, number: int, ends: tuple[str, int, str, int], ecn: int) -> bytes:
    """The block of a probe's packet with 172 bytes of payload, of which a dumpcap keeps the first 20."""
    src, sport, dst, dport = ends
    ip = struct.pack(">BBHHHBBHII", 0x45, ecn, 200, number, 0x4000, 64, 17, 0, per_flow.address(src),
                     per_flow.address(dst))  # fmt: skip
    frame = bytes(12) + b"\x08\x00" + ip + struct.pack(">HHHHQQI", sport, dport, 180, 0, number, 0, 0)
    ns = round(t * 1e9)
    return block(6, struct.pack("<IIIII", 0, ns >> 32, ns & 0xFFFFFFFF, len(frame), 214) + frame)


def add_probes(run: Path, codepoints: dict[tuple[str, str], int]) -> None:
    """Add both probes to a run; `codepoints` are those sent otherwise than asked, by probe and end."""
    lab = json.loads((run / "lab.json").read_text())
    lab["ports"] |= {probe.key: probe.port for probe in PROBES}
    (run / "lab.json").write_text(json.dumps(lab | {"qdisc_down": "dualpi2", "qdisc_up": "dualpi2"}))
    added: dict[str, list[bytes]] = {"client": [], "server": []}
    for probe in PROBES:
        trips = []
        asked = PROBES.index(probe)
        up, down = (codepoints.get((probe.codepoint, end), asked) for end in ("client", "server"))
        for n in range(COUNT):
            t = START - 1 + n * INTERVAL_MS / 1e3
            wait = WAITS[probe.codepoint] * (n % 50) / 50 if t >= START + SOLO else 0.0
            trips.append({"lost": "false", "timestamps": {"client": {"send": {"wall": round(t * 1e9)}}},
                          "delay": {"rtt": round((20.2 + wait) * 1e6)}})  # fmt: skip
            there, back = (CLIENT, 50_100, SERVER, probe.port), (SERVER, probe.port, CLIENT, 50_100)
            for side, at, ends, ecn in (
                ("client", 0.0, there, up), ("server", 10.1, there, up),
                ("server", 10.1, back, down), ("client", 20.2 + wait, back, down),
            ):  # fmt: skip
                added[side].append(datagram(t + at / 1e3, n, ends, ecn))
        (run / f"{probe.file}.json.gz").write_bytes(gzip.compress(json.dumps({"round_trips": trips}).encode()))
    for side, blocks in added.items():
        file = run / f"{side}.pcapng.zst"
        whole = zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes())
        file.write_bytes(zstandard.compress(whole + b"".join(blocks)))
    qdisc = run / "qdisc.jsonl"
    qdisc.write_text(qdisc.read_text().replace('"kind": "fq_codel", "options": {"limit": 10240, "flows": 1}',
                                               '"kind": "dualpi2", "options": {}'))  # fmt: skip


def failed(scores: Scores) -> list[tuple[str, str]]:
    """Code and name of the gates that a run fails."""
    return [(gate.code, gate.name) for gate in scores.validity.gates if not gate.ok]


@pytest.fixture
def both(run: Path) -> Path:
    add_probes(run, {})
    return run


def test_each_probe_has_figures_harm_and_a_curve_of_its_own(both: Path) -> None:
    scores = score_run(both)
    assert failed(scores) == []
    solo, prague = scores.phases
    assert (solo.rtt_p99_ms, solo.ect1_rtt_p99_ms) == (20.2, 20.2)
    assert (prague.rtt_p50_ms, prague.ect1_rtt_p50_ms) == pytest.approx((20.2 + 14.7, 20.2 + 0.98), abs=0.61)
    assert (prague.rtt_max_ms, prague.ect1_rtt_max_ms) == pytest.approx((20.2 + 29.4, 20.2 + 1.96))
    assert (prague.probe_loss, prague.ect1_probe_loss) == (0, 0)
    harms = {harm.metric: harm.harm for harm in scores.harm}
    assert harms["rtt_answered_p99_ms"] > 0.5 > 0.1 > harms["ect1_rtt_answered_p99_ms"] > 0
    assert harms["ect1_answered_share"] == 0
    assert [curve.name for curve in scores.ccdf] == ["solo", "prague", "solo", "unshaped"]
    assert [curve.name for curve in scores.ect1_ccdf] == ["solo", "prague", "solo"]
    # In the captures, packet by packet, by the queue that each codepoint has in dualpi2.
    rows = {(row.phase, row.of): row for row in scores.sojourn if row.of.endswith("probe")}
    assert {key: row.queue for key, row in rows.items()} == {
        (phase, of): queue for phase in ("solo", "prague") for of, queue in (("probe", "C"), ("ect1_probe", "L"))
    }
    assert rows["prague", "probe"].p99_ms == pytest.approx(29.5, abs=0.7)
    assert rows["prague", "ect1_probe"].p99_ms == pytest.approx(2.06, abs=0.1)


def test_the_table_of_probes_has_both(both: Path) -> None:
    through = TABLES["probes"].of(both).filter(path="bottleneck")
    assert dict(through["ecn"].value_counts().iter_rows()) == {0: COUNT, 1: COUNT}
    most = through.group_by("ecn").agg(pl.max("rtt_ms")).sort("ecn")["rtt_ms"].to_list()
    assert most == pytest.approx([49.6, 22.16])


@pytest.mark.parametrize(
    ("otherwise", "gates"),
    [
        ({("ect1", "client"): 0}, ["ECT(1) probe marked (client)"]),
        ({("ect1", "server"): 0}, ["ECT(1) probe marked (server)"]),
        ({("not-ect", "server"): 1}, ["Not-ECT probe marked (server)"]),
    ],
)
def test_a_probe_without_its_codepoint_on_the_wire_voids_the_run(
    run: Path, otherwise: dict[tuple[str, str], int], gates: list[str]
) -> None:
    add_probes(run, otherwise)
    assert failed(score_run(run)) == [("probe-marked", name) for name in gates]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.codepoint)
def test_a_missing_probe_voids_the_run(both: Path, probe: LatencyProbe) -> None:
    (both / f"{probe.file}.json.gz").unlink()
    scores = score_run(both)
    assert failed(scores) == [("probe-complete", f"{probe.name} probe complete")]
    assert getattr(scores.phases[1], f"{probe.prefix}rtt_p50_ms") is None


def test_a_port_that_no_probe_has_proves_nothing(both: Path) -> None:
    lab = json.loads((both / "lab.json").read_text())
    del lab["ports"]["irtt"]
    (both / "lab.json").write_text(json.dumps(lab))
    assert failed(score_run(both)) == [
        ("probe-marked", "Not-ECT probe marked (client)"), ("probe-marked", "Not-ECT probe marked (server)"),
    ]  # fmt: skip


@pytest.mark.parametrize("asked", ["not-ect", "ect1", "ect0"])
def test_a_run_with_one_probe_is_scored_by_its_codepoint(run: Path, asked: str) -> None:
    """As those of scores before 2.2."""
    (run / "options.json").write_text(json.dumps({"probe_ecn": asked}))
    scores = score_run(run)
    assert failed(scores) == []
    prague = scores.phases[1]
    classic, l4s = prague.rtt_p50_ms, prague.ect1_rtt_p50_ms
    assert (classic is None, l4s is None) == ((True, False) if asked == "ect1" else (False, True))
    assert {harm.metric for harm in scores.harm if harm.metric.endswith("p99_ms")} == {
        "ect1_rtt_answered_p99_ms" if asked == "ect1" else "rtt_answered_p99_ms"
    }
    through = TABLES["probes"].of(run).filter(path="bottleneck")
    assert through["ecn"].unique().to_list() == [CODEPOINTS[asked]]
