# SPDX-License-Identifier: Apache-2.0
"""Capture-to-display latency from a camera's log and a recording with known delays."""

from __future__ import annotations

import math
from itertools import pairwise

import polars as pl
import pytest

from sojourn.scoring.picture import freezes, glass_to_glass

START, FPS, LOOP = 1_795_273_136.25, 29.0, 150


def log(frames: int, lag_ms: float = 0.0, since: float = START) -> list[dict[str, object]]:
    """player.jsonl of a camera whose frames reach the page 0.5 ms after capture, every tenth `lag_ms` later."""
    detail = [
        [n % LOOP, 7_000_000 + n / FPS * 1e6, (since + n / FPS) * 1e3 + 0.5 + (lag_ms if n % 10 else 0)]
        for n in range(frames)
    ]
    return [{"t": since, "playing": True}, {"t": since + 1, "event": "camera", "detail": detail}]


def recording(frames: int, delay_s: float) -> pl.DataFrame:
    """What a 30 fps recorder sees of a screen that shows each frame `delay_s` after its capture."""
    grabs = [START + 1 + i / 30 for i in range(frames)]
    shown = [math.floor((t - START - delay_s) * FPS) for t in grabs]
    return pl.DataFrame({"t": grabs, "frame": [n % LOOP if n >= 0 else -1 for n in shown], "rendition": 0})


@pytest.mark.parametrize("delay_s", [0.05, 0.15, 2.0, 4.9])
def test_the_median_is_the_delay_however_the_frames_fall_on_the_recorder(delay_s: float) -> None:
    camera = glass_to_glass.camera_log(log(1000, lag_ms=40), LOOP)
    found = glass_to_glass.frame_delays(glass_to_glass.shown_frames(recording(600, delay_s), camera, LOOP, FPS))
    assert found["delay_ms"].median() == pytest.approx(delay_s * 1e3, abs=1.5)
    # Half a grab either way, and nothing beyond: 0.5 ms is the way from the camera to the page.
    assert found["delay_ms"].max() - found["delay_ms"].min() < 1e3 / 30 + 1  # type: ignore[operator]


@pytest.mark.parametrize("delay_s", [0.05, 0.15, 4.9])
def test_a_recording_of_changes_gives_each_delay_exactly(delay_s: float) -> None:
    camera = glass_to_glass.camera_log(log(1000, lag_ms=40), LOOP)
    numbers = [n for n in range(60, 600) if n % 100]  # every hundredth frame is never shown
    changes = [(START + n / FPS + delay_s, n % LOOP) for n in numbers]
    unchanged = [(changes[200][0] + 0.01, changes[200][1])]  # the same picture once more
    table = pl.DataFrame(sorted([*changes, *unchanged]), {"t": pl.Float64, "frame": pl.Int64}, orient="row")
    shown = glass_to_glass.shown_frames(table, camera, LOOP, FPS)
    found = glass_to_glass.frame_delays(shown, camera, on_change=True)
    delays = found["delay_ms"].drop_nulls()
    assert delays.len() == len(numbers) - 1  # the first may have been there before
    assert delays.min() == pytest.approx(delay_s * 1e3 - 0.5, abs=0.01)
    assert delays.max() == pytest.approx(delay_s * 1e3 - 0.5, abs=0.01)
    lost = [round((t - START) * FPS) for t in found.filter(pl.col("delay_ms").is_null())["t"]]
    assert [n for n in lost if 60 + 5 * FPS < n < 600] == [300, 400, 500]


def changes(shown: list[tuple[float, int]], end: float) -> pl.DataFrame:
    """What a recorder of changes has: every picture at its time (s from START), and it again every 0.5 s."""
    rows: list[tuple[float, int]] = []
    for (t, n), (until, _) in pairwise([*shown, (end, 0)]):
        rows += [(START + t + i / 2, n % LOOP) for i in range(math.ceil((until - t) * 2))]
    return pl.DataFrame(rows, {"t": pl.Float64, "frame": pl.Int64}, orient="row")


def test_delays_of_a_loop_and_more_are_those_of_pictures_in_order() -> None:
    """The delay rises to 9 s within 18 s, with stalls after each of which the next picture comes, and falls again."""
    camera = glass_to_glass.camera_log(log(1500), LOOP)
    rises = [(n / FPS + 0.1 + min(9, max(0, n / FPS - 5) / 2), n) for n in range(60, 700)]
    stalls = [(t + 3 if n >= 500 else t, n) for t, n in rises]
    key_frame = [(n / FPS + 0.1, n) for n in range(1100, 1400)]
    shown = glass_to_glass.shown_frames(changes([*stalls, *key_frame], 50), camera, LOOP, FPS)
    assert shown["frame"].unique(maintain_order=True).to_list() == [n for _, n in [*stalls, *key_frame]]
    delays = glass_to_glass.frame_delays(shown, on_change=True)
    assert delays["delay_ms"].max() == pytest.approx(12_100, abs=10)


def test_a_freeze_of_several_loops_is_one() -> None:
    camera = glass_to_glass.camera_log(log(1500), LOOP)
    seen = [(n / FPS + 0.1, n) for n in range(60, 1200) if not 10 < n / FPS < 22]
    shown = glass_to_glass.shown_frames(changes(seen, 41), camera, LOOP, FPS)
    (stall,) = freezes.stalls(freezes.displayed(shown["t"], shown["frame"], FPS))
    assert stall.length == pytest.approx(12, abs=0.1)
    delays = glass_to_glass.frame_delays(shown, camera, on_change=True)["delay_ms"]
    assert delays.max() == pytest.approx(99.5, abs=0.1) and delays.null_count() == pytest.approx(12 * FPS, abs=1)


def test_the_first_picture_of_a_loop_which_chromium_sends_twice_is_one_frame() -> None:
    sent = [n for loop in range(4) for n in (0, *range(LOOP))]
    detail = [[n, i / FPS * 1e6, (START + i / FPS) * 1e3] for i, n in enumerate(sent)]
    camera = glass_to_glass.camera_log([{"t": START, "event": "camera", "detail": detail}], LOOP)
    assert camera["frame"].to_list() == list(range(4 * LOOP))
    times = camera["t"].to_list()
    shown = glass_to_glass.shown_frames(
        changes([(t - START + 0.05, n) for n, t in enumerate(times)], 21), camera, LOOP, FPS
    )
    delays = glass_to_glass.frame_delays(shown, on_change=True)["delay_ms"]
    assert delays.min() == pytest.approx(50, abs=0.1) and delays.max() == pytest.approx(50, abs=0.1)


def test_frames_rise_over_the_loops_end_and_a_long_freeze() -> None:
    camera = glass_to_glass.camera_log(log(1000), LOOP)
    table = recording(600, 0.1)
    frozen = table.filter(~pl.col("t").is_between(START + 3, START + 7))
    shown = glass_to_glass.shown_frames(frozen, camera, LOOP, FPS)
    steps = shown["frame"].diff().drop_nulls()
    assert steps.min() >= 0 and steps.max() == pytest.approx(4 * FPS, abs=2)  # type: ignore[operator]


def test_a_second_camera_in_the_same_log_has_a_clock_of_its_own() -> None:
    later = START + 20
    detail = [[n, n / FPS * 1e6, (later + n / FPS) * 1e3] for n in range(50)]
    camera = glass_to_glass.camera_log([*log(100), {"t": later, "event": "camera", "detail": detail}], LOOP)
    assert camera.height == 150
    assert camera["t"][100] == pytest.approx(later, abs=1e-3)
    assert camera["t"][0] == pytest.approx(START, abs=1e-3)


def test_frames_that_no_grab_holds_were_never_shown() -> None:
    """Of 20 s at 29 a second the screen leaves out one second, and every tenth frame of what comes after."""
    camera = glass_to_glass.camera_log(log(1000), LOOP)
    grabs = [START + 1 + i / 60 for i in range(1200)]
    numbers = [math.floor((t - START - 0.1) * FPS) for t in grabs]
    out = [58 <= n < 87 or (n >= 116 and n % 10 == 0) for n in numbers]
    held = [n if not gone else None for n, gone in zip(numbers, out, strict=True)]
    table = pl.DataFrame({"t": grabs, "frame": held}).with_columns(pl.col("frame").forward_fill() % LOOP)
    shown = glass_to_glass.shown_frames(table, camera, LOOP, FPS)
    delays = glass_to_glass.frame_delays(shown, camera)
    never = sorted({n for n, gone in zip(numbers, out, strict=True) if gone})
    lost = delays.filter(pl.col("delay_ms").is_null())["t"]
    assert [round((t - START) * FPS) for t in lost] == never
    assert delays.height - len(never) == glass_to_glass.frame_delays(shown).height


def test_a_frame_that_may_have_been_shown_unread_is_not_lost() -> None:
    camera = glass_to_glass.camera_log(log(1000), LOOP)
    table = recording(600, 0.1).with_columns(
        frame=pl.when(pl.col("t").is_between(START + 5, START + 6)).then(-1).otherwise("frame")
    )
    delays = glass_to_glass.frame_delays(glass_to_glass.shown_frames(table, camera, LOOP, FPS), camera)
    assert delays["delay_ms"].null_count() == 0


def test_an_unread_grab_excuses_no_more_frames_than_it_may_have_shown() -> None:
    """The picture stands still for 2 s, then jumps to the present; the first grab of it is unread."""
    camera = glass_to_glass.camera_log(log(1000), LOOP)
    table = recording(600, 0.1)
    last = table.filter(pl.col("t") < START + 5)["frame"][-1]
    still = pl.col("t").is_between(START + 5, START + 7, closed="left")
    stood = table.with_columns(frame=pl.when(still).then(last).otherwise("frame"))
    first = stood.filter(pl.col("t") >= START + 7)["t"][0]
    unread = stood.with_columns(frame=pl.when(pl.col("t") == first).then(-1).otherwise("frame"))
    lost, with_unread = (
        glass_to_glass.frame_delays(glass_to_glass.shown_frames(it, camera, LOOP, FPS), camera)["delay_ms"].null_count()
        for it in (stood, unread)
    )
    assert lost == pytest.approx(2 * FPS, abs=2) and lost - 1 <= with_unread <= lost


def test_a_picture_that_stands_still_to_the_end_loses_what_came_meanwhile() -> None:
    camera = glass_to_glass.camera_log(log(1000), LOOP)
    table = recording(600, 0.1)
    last = table.filter(pl.col("t") < START + 17)["frame"][-1]
    stopped = table.with_columns(frame=pl.when(pl.col("t") < START + 17).then("frame").otherwise(last))
    delays = glass_to_glass.frame_delays(glass_to_glass.shown_frames(stopped, camera, LOOP, FPS), camera)
    # From 17 s to 2 s before the end at 20.97 s, and the tenth of a second that was under way.
    assert delays["delay_ms"].null_count() == pytest.approx((20.97 - 2 - 17 + 0.1) * FPS, abs=2)


def test_without_a_camera_no_frame_is_known() -> None:
    shown = glass_to_glass.shown_frames(recording(10, 0.1), glass_to_glass.camera_log([], LOOP), LOOP, FPS)
    assert shown["frame"].null_count() == 10
    assert glass_to_glass.frame_delays(shown).is_empty()
