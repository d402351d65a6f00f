# SPDX-License-Identifier: Apache-2.0
"""The sound of a real call: as late as its path and NetEq's buffer make it, and concealed where packets are lost."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.harness.matrix.cells import simulated_call
from sojourn.harness.matrix.cells.cell_run import CellJob, write_scores
from sojourn.harness.report import speech_quality
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema import records
from sojourn.scoring.sound import code
from sojourn.scoring.sound.ear import heard_from
from sojourn.scoring.sound.heard import places
from sojourn.traffic.spec import Call
from tests.lab.main_job import run_harm

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

SECONDS = 7.0
SEEDS = 1, 2
SPOKEN = 1 / 1.6
"""The share of the time in which a speaker does not pause."""
#: Of both ends, without what NetEq counts: 10 ms of the microphone's block and 6.5 ms that Opus looks ahead, less the
#: tick in which a packet arrives, which counts as a whole one; then up to a tick until it is decoded, and up to a tick
#: that it waits decoded. NetEq counts neither of these.
ENDS_MS, UNCOUNTED_MS = 6.5, 20


def cell(one_way_ms: int, loss_percent: float = 0) -> Cell:
    lossy = Impairment(loss_percent=loss_percent)
    way = Direction(rate_bps=50_000_000, qdisc="pfifo", path=lossy)  # type: ignore[arg-type]
    call = Call(rtt_us=2000 * one_way_ms, bitrate_bps=500_000, sound=True)
    return Cell(name="sound", hops=(Hop(down=way, up=way),), seconds=SECONDS, call=call)


def run(asked: Cell, folder: Path, seed: int) -> list[dict[str, Any]]:
    """Run a cell and return the scores of its call: down, up."""
    folder.mkdir(parents=True)
    simulated_call.run_cell(asked, folder, seed=seed)
    write_scores(CellJob(asked, seed, window_s=SECONDS - 2, tail_s=1, inputs=""), folder)
    call: list[dict[str, Any]] = json.loads((folder / "scores.json").read_text())["call"]
    print(folder.name, asked.rtts_us, call)
    return call


@pytest.fixture(scope="module")
def added_ms(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    """What sound is late in excess of NetEq's count, ms, in each direction of calls over a path."""
    folder = tmp_path_factory.mktemp("late")

    @cache
    def of(one_way_ms: int) -> list[float]:
        ways = [way for seed in SEEDS for way in run(cell(one_way_ms), folder / f"{one_way_ms}-{seed}", seed)]
        for way in ways:
            assert way["ear_loss"] == way["ear_gap_share"] == way["neteq_concealed_share"] == 0
        return [way["ear_p50_ms"] - way["neteq_buffer_ms"] for way in ways]

    return of


@pytest.mark.parametrize("one_way_ms", [20, 100, 300])
def test_it_is_as_late_as_the_path_the_ends_and_neteq_make_it(
    added_ms: Callable[[int], list[float]], one_way_ms: int
) -> None:
    for late_ms in added_ms(one_way_ms):
        assert ENDS_MS - 2 < late_ms - one_way_ms < ENDS_MS + UNCOUNTED_MS + 2


@pytest.mark.parametrize("one_way_ms", [100, 300])
def test_a_longer_path_is_heard_as_much_later(added_ms: Callable[[int], list[float]], one_way_ms: int) -> None:
    """What NetEq does not count differs by 2 ms from call to call (standard deviation), the mean of four by 1."""
    assert fmean(added_ms(one_way_ms)) - fmean(added_ms(20)) == pytest.approx(one_way_ms - 20, abs=4)


@pytest.mark.parametrize("loss_percent", [1, 5])
def test_gaps_are_where_neteq_conceals(tmp_path: Path, loss_percent: float) -> None:
    ways = run(cell(20, loss_percent), tmp_path / "lossy", 1)
    # NetEq counts samples of pauses too. Of 1 % of 250 packets, FEC may restore all that one way loses.
    gaps = SPOKEN * fmean(way["ear_gap_share"] for way in ways)
    assert 0 < gaps == pytest.approx(fmean(way["neteq_concealed_share"] for way in ways), abs=0.02)


def test_the_buffer_shrinks_to_its_target_once_the_queue_has_gone(tmp_path: Path) -> None:
    """Speakers pause; within tones, NetEq shortens nothing."""
    timeline = "--timeline=solo:5,cubic:4,solo:14"
    queue = "--qdisc=pfifo limit 200", "--rate=10mbit", "--rtt=20ms"
    done = run_harm(tmp_path, "--service=call", *queue, timeline, "--seed=1")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = RunStore(tmp_path).runs()
    table = load_run(path).scores.series
    late = dict(zip(table.t, table.ear_ms or [], strict=True))
    alone, most, afterwards = late[2], max(late[t] or 0 for t in late if 5 <= t < 12), late[20]
    assert most > alone + 150 and afterwards < most - 30, late


def test_the_same_seed_sounds_the_same(tmp_path: Path) -> None:
    for name in "ab":
        run(cell(20, 5), tmp_path / name, 1)
    for file in ("tones.csv", "neteq.csv", "evidence/sound.flac", "evidence/far/sound.flac"):
        one, other = (tmp_path / name / file for name in "ab")
        assert one.read_bytes() == other.read_bytes(), file


def test_speech_is_heard_well_alone_and_worse_in_loss(tmp_path: Path) -> None:
    pytest.importorskip("visqol")
    lost = []
    for number, loss in enumerate(([], ["--loss=10%"])):
        results = tmp_path / str(number)
        path = ["--qdisc=pfifo", "--rate=50mbit", "--rtt=40ms", *loss]
        done = run_harm(
            results, "--service=call", "--call-sound=speech", "--call-bitrate=500kbit", *path, "--timeline=solo:12",
            "--seed=1",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        (run,) = RunStore(results).runs()
        judged = speech_quality.measure(run, lambda share: None)
        print(loss, judged.rows())
        assert set(judged["listener"]) == {"client", "far"} and judged["mos_lqo"].null_count() == 0
        lost.append((judged["spoken"] - judged["mos_lqo"]).mean())
        scores = load_run(run).scores
        assert all(it.r_factor is None and it.neteq_buffer_ms for it in (*scores.phases, *scores.far))
        if not number:
            assert judged["delay_ms"].is_between(20, 90).all()
    # Opus repairs most of it: 10 % of lost packets cost 0.14.
    assert abs(lost[0]) < 0.1 and lost[1] > lost[0] + 0.05


def test_a_run_is_in_sync_and_its_film_has_what_was_heard(tmp_path: Path) -> None:
    done = run_harm(
        tmp_path, "--service=call", "--qdisc=pfifo", "--rate=50mbit", "--rtt=40ms", "--timeline=solo:8", "--seed=1"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = RunStore(tmp_path).runs()
    scores = load_run(path).scores
    for (phase,) in (scores.phases, scores.far):
        assert phase.ear_loss == 0 and phase.r_factor is not None and phase.r_factor > 92
        assert phase.lip_sync_p50_ms is not None and abs(phase.lip_sync_p50_ms) < 45
    film = tmp_path / "film.mp4"
    command = ["sojourn", "film", str(path), "-o", str(film), "--from=1", "--to=6"]
    subprocess.run(command, check=True, capture_output=True)
    raw = ["ffmpeg", "-v", "error", "-i", str(film), "-vn", "-f", "s16le", "-ar", str(code.RATE), "-"]
    shown = np.frombuffer(subprocess.run(raw, check=True, capture_output=True).stdout, "<i2")
    lines = records.read_lines(path / "player.jsonl", records.PLAYER)
    heard = heard_from(lines, path / "sound.flac", scores.t0 + 1, 5)
    assert heard is not None
    in_film, in_run = (places(it)[100:4900] for it in (shown.astype(np.float32) / 32768, heard))
    spoken = np.isfinite(in_run)
    assert spoken.mean() > 0.5, "without the speaker's pauses"
    assert np.isfinite(in_film[spoken]).mean() > 0.99 and np.nanmax(np.abs(in_film - in_run)) < 0.1
