# SPDX-License-Identifier: Apache-2.0
"""The measurements inside windows of time: a row of the main table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sojourn.scoring import responsiveness
from sojourn.scoring.call_marks import marks_within
from sojourn.scoring.game import Game, game_fields
from sojourn.scoring.live_latency import latency_within
from sojourn.scoring.packets import latency, per_flow
from sojourn.scoring.page_loads import load_fields
from sojourn.scoring.picture import frames, freezes, rendition
from sojourn.scoring.picture.shown import Picture
from sojourn.scoring.schema.scores import PageLoad
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.sound.ear import Sound
from sojourn.scoring.sound.neteq import neteq_within
from sojourn.scoring.sound.summary import IN_TIME_MS, sound_fields
from sojourn.scoring.transport import demand

ANSWER_IN_TIME_MS = 100.0
"""The deadline of a probe's answer: a convention of this project, not of a standard. Compare it with the path's RTT."""


@dataclass(frozen=True)
class Observations:
    """The observations of a victim and its contender; None for what was not recorded."""

    picture: Picture
    clip_fps: float
    victim: pl.DataFrame | None = None
    contender: pl.DataFrame | None = None
    probes: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """By the prefixes of their metrics' names, see `sojourn.traffic.probes`."""
    uploads: pl.DataFrame | None = None
    marks: pl.DataFrame | None = None
    """A SCReAM call's counters of ECN, see `sojourn.scoring.call_marks.marks_log`."""
    sound: Sound | None = None
    """What was heard of a speaker's tones; None for speech."""
    neteq: pl.DataFrame | None = None
    """A call's counters of its jitter buffer for sound, see `sojourn.scoring.sound.neteq.neteq_log`."""
    live: pl.DataFrame | None = None
    """A player's latency behind a broadcast, see `sojourn.scoring.live_latency.latency_log`."""
    connections: pl.DataFrame | None = None
    """The foreign probes of --rpm, see `sojourn.scoring.responsiveness.frame`."""
    loads: Sequence[PageLoad] | None = None
    """Loads of web pages; their times are from `start` on."""
    compared_loads: int = 0
    """How many of every phase are compared, see `sojourn.scoring.page_loads.compared`."""
    start: float = 0.0
    """Start of the first phase, Unix s."""
    game: Game | None = None

    def metrics(self, windows: Sequence[Window]) -> dict[str, Any]:
        """Return the fields of Metrics over all windows together."""
        seconds = sum(end - start for start, end in windows)
        values: dict[str, Any] = {"seconds": seconds}

        def weighted(parts: Iterator[float]) -> float:
            return sum(v * (b - a) for v, (a, b) in zip(parts, windows, strict=True)) / seconds

        rates = {"victim_mbps": self.victim, "contender_mbps": self.contender, "contender_up_mbps": self.uploads}
        for name, table in rates.items():
            if table is not None:
                values[name] = weighted(per_flow.goodput_bps(table, a, b) / 1e6 for a, b in windows)
        if self.picture.changes is not None and self.picture.frames is not None:
            inside, tiles = latency.within(self.picture.frames, list(windows)), self.picture.tiles
            values |= {
                "fps": weighted(freezes.fps_series(self.picture.changes, window)[0] for window in windows) / tiles,
                "speed": weighted(freezes.speed(self.picture.changes, a, b, self.clip_fps) for a, b in windows) / tiles,
                "unread_share": frames.unread_share(inside),
            }
        if self.picture.stalls is not None:
            values |= {
                "stalls": sum(freezes.begun(self.picture.stalls, a, b) for a, b in windows),
                "stall_s": sum(freezes.frozen_s(self.picture.stalls, a, b) for a, b in windows),
                "freezes": sum(freezes.begun(self.picture.webrtc, a, b) for a, b in windows),
                "freeze_s": sum(freezes.frozen_s(self.picture.webrtc, a, b) for a, b in windows),
            }
        if self.picture.segments is not None:
            shown = rendition.shares(self.picture.segments, windows)
            drops = [c.t for c in rendition.changes(self.picture.segments) if c.drop]
            values |= {
                "mean_height": rendition.mean_height(shown),
                "dominant_height": rendition.dominant(shown),
                "lowest_height": min(shown, default=None),
                "height_seconds": shown,
                "drops": sum(a <= t < b for t in drops for a, b in windows),
            }
        values |= {
            name: 1 - values[lost] / seconds
            for name, lost in (("played_share", "stall_s"), ("unfrozen_share", "freeze_s"))
            if lost in values
        }
        if self.picture.segments is not None and self.picture.stalls is not None:
            moving = rendition.shares(self.picture.segments, list(freezes.moving(self.picture.stalls, windows)))
            if known := sum(values["height_seconds"].values()):
                values["played_height"] = sum(height * s for height, s in moving.items()) / known
        if self.picture.buffered is not None:
            values["buffer_fall_s"] = demand.largest_fall(self.picture.buffered, windows)
        for prefix, sent in self.probes.items():
            probes = latency.within(sent, list(windows))
            for percent, name in ((50, "p50"), (90, "p90"), (99, "p99"), (99.9, "p999")):
                values[f"{prefix}rtt_{name}_ms"] = latency.percentile(probes, percent)
            lost = latency.loss(probes)
            values |= {f"{prefix}rtt_max_ms": latency.largest(probes), f"{prefix}probe_loss": lost}
            values[f"{prefix}rtt_answered_p99_ms"] = latency.percentile(probes.drop_nulls("rtt_ms"), 99)
            values[f"{prefix}answered_share"] = None if lost is None else 1 - lost
            if probes.height:
                values[f"{prefix}rtt_in_time"] = (probes["rtt_ms"] <= ANSWER_IN_TIME_MS).sum() / probes.height
        if self.connections is not None:
            values |= responsiveness.foreign_fields(latency.within(self.connections, list(windows)))
        if self.game is not None:
            values |= game_fields(self.game, windows)
        if self.live is not None:
            values |= latency_within(self.live, windows)
        if self.picture.delays is not None:
            delays = latency.within(self.picture.delays, list(windows))
            for percent, name in ((50, "p50"), (90, "p90"), (99, "p99")):
                values[f"frame_{name}_ms"] = latency.percentile(delays, percent, "delay_ms")
            values["frame_max_ms"] = latency.largest(delays, "delay_ms")
            values["frame_shown_p99_ms"] = latency.percentile(delays.drop_nulls("delay_ms"), 99, "delay_ms")
            if delays.height:
                values |= {
                    "frame_loss": delays["delay_ms"].null_count() / delays.height,
                    "frames_in_time": (delays["delay_ms"] <= IN_TIME_MS).sum() / delays.height,
                }
        if self.loads is not None:
            values |= load_fields(
                self.loads, [(a - self.start, b - self.start) for a, b in windows], self.compared_loads
            )
        if self.sound is not None:
            lips = self.picture.delays if self.picture.lips is None else self.picture.lips
            values |= sound_fields(self.sound, lips, windows)
        if self.neteq is not None:
            values |= neteq_within(self.neteq, windows)
        return values if self.marks is None else values | marks_within(self.marks, windows)
