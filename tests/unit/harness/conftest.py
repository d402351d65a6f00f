# SPDX-License-Identifier: Apache-2.0
"""A small scored run for the tests of report, view and figure: what the scorer writes, in round numbers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sojourn.hardware.machine.subreaper import adopt_orphans
from sojourn.harness.cli.common import renew_report
from sojourn.harness.matrix import matrix
from sojourn.harness.soak.leaks import marked
from sojourn.harness.soak.state import batches
from sojourn.harness.store.reasons import of_gates
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import HARMED, Scores
from sojourn.scoring.statistics import intervals
from sojourn.scoring.statistics.harm import harm

_T0 = 1_700_000_000.0
_drawn: dict[tuple[object, ...], tuple[float, float]] = {}
_loaded: dict[tuple[Path, bytes], matrix.Matrix] = {}


@pytest.fixture(autouse=True)
def values_are_resampled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resample equal values once in a session: most tests summarise the same runs, and draw from a fixed seed."""
    resampled = intervals._resampled

    def once(series: tuple[Any, ...], take: Callable[..., Any], tail: float, finite: bool) -> tuple[float, float]:
        if len(series) > 1:
            return resampled(series, take, tail, finite)
        key = (series[0].tobytes(), take, float(tail), finite, intervals.RESAMPLES)
        if key not in _drawn:
            _drawn[key] = resampled(series, take, tail, finite)
        return _drawn[key]

    monkeypatch.setattr(intervals, "_resampled", once)


@pytest.fixture(autouse=True)
def matrices_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute a file with a matrix once in a session: each command would make the 5000 cells of all."""
    load = matrix._load

    def once(path: Path) -> matrix.Matrix:
        key = (path, path.read_bytes())
        if key not in _loaded:
            _loaded[key] = load(path)
        return _loaded[key]

    monkeypatch.setattr(matrix, "_load", once)


@pytest.fixture
def scores() -> Scores:
    """30 s: 10 s alone at 720p, 10 s beside Prague with a drop to 240p and a stall, 10 s alone."""
    seconds = list(range(30))

    def phase(name: str, contender: str | None, start: float, **metrics: Any) -> dict[str, Any]:
        return {
            "name": name,
            "contender": contender,
            "start": start,
            "end": start + 10,
            "seconds": 10,
        } | metrics

    alone = {
        "victim_mbps": 2.5,
        "fps": 30,
        "dominant_height": 720,
        "lowest_height": 720,
        "stalls": 0,
        "stall_s": 0,
        "played_height": 720,
    }
    hurt = {
        "victim_mbps": 0.4,
        "contender_mbps": 9.1,
        "fps": 21.5,
        "dominant_height": 240,
        "lowest_height": 240,
        "played_height": 156,
    }
    base: dict[str, Any] = {
        "t0": _T0,
        "lab": {
            "name": "virtual", "rate_down_bps": 10e6, "rate_up_bps": 10e6, "rtt_ms": 20.0,
            "qdisc_down": "fq_codel flows 1", "qdisc_up": "fq_codel flows 1",
        },
        "picture": "strip",
        "primary": "played_height",
        "validity": {
            "valid": True,
            "gates": [{"name": "host stalls", "ok": True, "measured": "worst 3.1 ms", "limit": "20 ms"}],
        },
        "phases": [
            phase("solo-1", None, 0, **alone),
            phase("prague", "prague", 10, **hurt, drops=1, stalls=2, stall_s=3.5, rtt_p99_ms=61.5),
            phase("solo-2", None, 20, **alone),
        ],
        "baseline": {"seconds": 10} | alone,
        "baseline_windows": [(0, 10)],
        "harm": [
            {
                "phase": "prague", "contender": "prague", "metric": "victim_mbps", "better": "more",
                "solo": 2.5, "value": 0.4, "harm": 0.84,
            },
            {
                "phase": "prague", "contender": "prague", "metric": "played_height", "better": "more",
                "solo": 720, "value": 156, "harm": 0.7833,
            },
        ],
        "renditions": [
            {"t": 13.0, "before": 720, "after": 240, "drop": True, "phase": "prague"},
            {"t": 25.0, "before": 240, "after": 720, "drop": False, "phase": "solo-2"},
        ],
        "freezes": [
            {"t": 14.0, "length": 2.5, "kind": "stall", "phase": "prague", "uncertain": False},
            {"t": 14.0, "length": 2.5, "kind": "webrtc", "phase": "prague", "uncertain": False},
            {"t": 18.0, "length": 0.3, "kind": "webrtc", "phase": "prague", "uncertain": False},
        ],
        "flows": [
            {
                "phase": "prague", "contender": "prague", "sport": 40001, "data_packets": 8000,
                "bytes": 11_000_000,
                "not_ect": 0, "ect0": 0, "ect1": 8000, "ce": 412, "resent": 3, "accecn_syn": True,
                "window_goodput_mbps": 9.08,
            }
        ],
        "series": {
            "step_s": 1.0, "t": seconds,
            "victim_mbps": [0.4 if 10 <= t < 20 else 2.5 for t in seconds],
            "contender_mbps": [9.1 if 10 <= t < 20 else 0.0 for t in seconds],
        },
        "goodput_100ms": {"step_s": 0.1, "t": []},
        "ccdf": [
            {"name": "solo-1", "ms": [20, 21], "percent": [50, 0], "probes": 1000},
            {"name": "prague", "ms": [25, 61.5, 70], "percent": [90, 1, 0], "probes": 1000},
            {"name": "solo", "ms": [20, 21], "percent": [50, 0], "probes": 1000},
        ],
    }  # fmt: skip
    return Scores.model_validate(base)


@pytest.fixture
def recorded(scores: Scores, tmp_path: Path) -> Callable[..., Path]:
    """Make a run with the recording of a screen that begins 2 s before its first phase, and a probe each 100 ms."""

    def make(seconds: float, fps: int = 30, told: Scores = scores) -> Path:
        with RunStore(tmp_path / "results").create("video-harm", "youtube") as run:
            command = ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", f"testsrc2=s=320x180:r={fps}:d={seconds}"]
            command += ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", str(run.path / "screen.mp4")]
            subprocess.run(command, check=True)
            (run.path / "screen.json").write_text(json.dumps({"start": scores.t0 - 2, "fps": fps}))
            (run.path / "options.json").write_text(json.dumps({"service": "youtube"}))
            trips = [
                {"timestamps": {"client": {"send": {"wall": (scores.t0 + n / 10) * 1e9}}}, "lost": "false"}
                | {"delay": {"rtt": (60 if 10 <= n / 10 < 20 else 20 + n % 5) * 1e6}}
                for n in range(300)
            ]
            (run.path / "irtt.json").write_text(json.dumps({"round_trips": trips}))
            (run.path / "scores.json").write_text(told.model_dump_json())
            run.void(*of_gates(told.validity))
            renew_report(path := run.commit())
            return path

    return make


@pytest.fixture
def soak_place(tmp_path: Path, scores: Scores, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the nights of stand-in runs (soaks.py); no process of theirs may outlive the test."""
    (tmp_path / "scores.json").write_text(scores.model_dump_json())
    monkeypatch.setenv("SOAK_TEST", str(tmp_path))
    yield tmp_path
    adopt_orphans(False)  # those of the tests to come are not ours
    for folder in batches(tmp_path / "soak"):
        assert marked(str(folder.path)) == []


Series = Callable[..., list[Path]]


@pytest.fixture
def series(scores: Scores, tmp_path: Path) -> Series:
    """Make runs: beside CUBIC the victim keeps its picture, beside Prague it stalls for as long as is said."""

    def make(
        stalled: Sequence[float], void: Sequence[float] = (), qdisc: str | None = "fq_codel flows 1", **options: Any
    ) -> list[Path]:
        made = []
        for number, stall_s in enumerate([*void, *stalled]):
            order = ("prague", "cubic") if number % 2 else ("cubic", "prague")
            document = _document(scores, stall_s, order, valid=number >= len(void))
            document["lab"] |= {"qdisc_down": qdisc, "qdisc_up": qdisc}
            if qdisc is None:
                document["lab"] |= {"box": options["box"], "rate_down_bps": None, "rtt_ms": None}
            asked = {"service": "o2tv", "seed": number + 1, "buffer_s": 6.0, "qdisc_down": qdisc} | options
            asked["phases"] = [{k: p[k] for k in ("name", "contender", "seconds")} for p in document["phases"]]
            with RunStore(tmp_path / "results").create("video-harm", "o2tv 20mbit", seed=number + 1) as run:
                (run.path / "options.json").write_text(json.dumps(asked))
                (run.path / "timeline.json").write_text(json.dumps({"phases": asked["phases"]}))
                told = Scores.model_validate(document)
                (run.path / "scores.json").write_text(told.model_dump_json())
                run.void(*of_gates(told.validity))
                renew_report(path := run.commit())
                made.append(path)
        return made

    return make


def _document(scores: Scores, stall_s: float, order: Sequence[str], valid: bool) -> dict[str, Any]:
    alone = {"seconds": 10, "victim_mbps": 3.0, "fps": 30, "dominant_height": 720, "height_seconds": {720: 10}}
    alone |= {"stall_s": 0, "played_share": 1, "unfrozen_share": 1, "mean_height": 720, "played_height": 720}
    alone |= {"rtt_p99_ms": 22, "rtt_answered_p99_ms": 22}
    beside = {
        "cubic": alone
        | {
            "contender_mbps": 15.0,
            "stalls": 0,
            "freezes": 0,
            "victim_mbps": 2.9,
            "rtt_p99_ms": 60,
            "rtt_answered_p99_ms": 60,
        },
        "prague": alone
        | {"contender_mbps": 17.4, "victim_mbps": 1 - stall_s / 20, "fps": 30 - stall_s, "mean_height": 360.0}
        | {"lowest_height": 240, "height_seconds": {240: 7.5, 720: 2.5}, "stalls": 1, "freezes": 2, "freeze_s": 3.0}
        | {"stall_s": stall_s, "played_share": 1 - stall_s / 10, "played_height": 36 * (10 - stall_s)}
        | {"unfrozen_share": 0.7, "rtt_p99_ms": 80 + stall_s, "rtt_answered_p99_ms": 80 + stall_s},
    }
    names = ["solo-1", order[0], "solo-2", order[1], "solo-3"]
    phases: list[dict[str, Any]] = [
        {"name": name, "contender": name if name in beside else None, "start": 10 * n, "end": 10 * n + 10}
        | beside.get(name, alone)
        for n, name in enumerate(names)
    ]
    harms = [
        {"phase": name, "contender": name, "metric": metric, "better": better, "solo": alone[metric], "value": value}
        | {"harm": harm(alone[metric], value, better)}
        for name in order
        for metric, better in HARMED.items()
        if (value := beside[name].get(metric)) is not None and metric in alone
    ]
    gate = {"name": "jitter", "ok": valid, "measured": "9 ms", "limit": "2 ms", "reason": "jitter: 9 ms, at most 2 ms"}
    return scores.model_dump() | {
        "primary": "played_height", "own_kind": "cubic", "phases": phases, "baseline": alone,
        "harm": harms if valid else [], "validity": {"valid": valid, "gates": [gate]},
    }  # fmt: skip
