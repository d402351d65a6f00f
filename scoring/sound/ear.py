# SPDX-License-Identifier: Apache-2.0
"""Mouth to ear: the delay of every 20 ms of a speaker's sound until the listener hears it, and what is never heard.

Two taps in the pages (captures/sound.js) give the times: the speaker's microphone, and the listener's track behind the
jitter buffer. Both come from the host's clock. Excerpts of the microphone tell which place of the speaker's loop was
spoken when. A speaker may mute its microphone for pauses: what it does not send is neither lost nor a gap.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sojourn.hardware.confine.decoder import decoder
from sojourn.scoring.packets.sojourn import UNDER_WAY_S
from sojourn.scoring.picture.recording import QUIET, RecordingError
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.sound import code, heard

SOUND = "sound.flac"
"""The sound that an end of a call heard."""
_LEAP_US = 1500.0  # as in captures/sound.js
_THINNED = 4  # as there
TONE_S = code.SLOT / code.RATE
"""The length of a tone."""
_SLOT_MS = 1e3 * TONE_S
#: A tone this close to a pause may be cut: the page mutes between two blocks of the microphone.
_CUT_S = 0.05
_MOST_S = 86_400


class Sound(NamedTuple):
    """What an end of a call heard."""

    tones: pl.DataFrame
    """Every 20 ms of the speaker's sound: columns t (Unix s when it was spoken), delay_ms (null: never heard).

    From when both taps are known to run, or from the first that was heard.
    """
    ear: pl.DataFrame
    """Every ms of the listener's sound: columns t (Unix s), gap (nothing of the speaker's), repeated (heard before).

    In the speaker's pauses, gap and repeated are null.
    """

    @property
    def begins(self) -> float | None:
        """When SOUND begins by the times of most of its samples, Unix s: the first block's differs by 10 ms."""
        begun = self.ear.select((pl.col("t") - pl.int_range(pl.len()) / 1e3).median())
        return begun.item()  # type: ignore[no-any-return]


def ear(lines: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], file: Path) -> Sound | None:
    """Return what was heard in `file` (SOUND); None if nothing.

    `lines` are those of the listener's player.jsonl, `other` those of the speaker's. Raises RecordingError.
    """
    tapped, mouth = _Track.of("heard", lines), _Track.of("spoken", other)
    if tapped is None or mouth is None or not (spoken := mouth.anchors()):
        return None
    found = heard.places(read_sound(file))
    times = tapped.times(np.arange(len(found)) * heard.MS)
    return _sound(times, found, spoken, pauses(other))


def tapped(lines: Sequence[Mapping[str, Any]], file: Path) -> Sound | None:
    """Return when sound without tones was heard in `file` (SOUND), every ms of it; None if nothing.

    `lines` are those of the listener's player.jsonl. What was heard is unknown: all but the times is null. Raises
    RecordingError.
    """
    if (track := _Track.of("heard", lines)) is None:
        return None
    times = track.times(np.arange(len(read_sound(file)) // heard.MS) * heard.MS)
    unknown = pl.lit(None, pl.Boolean)
    return Sound(
        pl.DataFrame(schema={"t": pl.Float64, "delay_ms": pl.Float64}),
        pl.DataFrame({"t": times}).with_columns(gap=unknown, repeated=unknown),
    )


class Excerpt(NamedTuple):
    """What a microphone heard: when (Unix s), samples per second of its track, and samples, thinned as they are."""

    t: float
    rate: float
    samples: heard.Samples


def excerpts(lines: Iterable[Mapping[str, Any]]) -> list[Excerpt]:
    """Return the excerpts of a speaker's microphone; `lines` are those of its player.jsonl."""
    mouth = _Track.of("spoken", lines)
    return mouth.excerpts() if mouth else []


def pauses(lines: Iterable[Mapping[str, Any]]) -> list[Window]:
    """Return when a speaker had muted its microphone (Unix s), by the lines of its player.jsonl."""
    muted = [(line["t"], line["detail"]) for line in lines if line.get("event") == "muted"]
    return [(start, end) for (start, mutes), (end, _) in pairwise([*muted, (np.inf, False)]) if mutes]


def read_sound(file: Path) -> heard.Samples:
    """Return the samples of a FLAC file at `code.RATE`, between -1 and 1. Raises RecordingError."""
    with decoder("ffmpeg", [file]) as ready:
        only = ["-f", "flac", "-protocol_whitelist", "file", "-codec_whitelist", "flac"]
        command = [*ready.command, *QUIET, "-nostdin", *only, "-i", f"file:{ready.names[file]}"]
        raw = ["-t", str(_MOST_S), "-f", "s16le", "-ac", "1", "-ar", str(code.RATE), "pipe:1"]
        run = subprocess.run([*command, *raw], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if run.returncode:
        raise RecordingError(f"sound {file} cannot be read: it is no FLAC file")
    return np.frombuffer(run.stdout, "<i2").astype(np.float32) / np.float32(32768)


def heard_from(
    lines: Iterable[Mapping[str, Any]], file: Path, start: float, seconds: float | None = None
) -> heard.Samples | None:
    """Return the samples at `code.RATE` that were heard from `start` (Unix s) on; None if none.

    `lines` are those of the listener's player.jsonl, `file` is SOUND. The samples last `seconds` s; by default, until
    the sound ends. Silence is where the tap has nothing. Raises RecordingError.
    """
    if (tapped := _Track.of("heard", lines)) is None:
        return None
    samples = read_sound(file)
    parts = [
        (round((float(tapped.times(np.array([part.start]))[0]) - start) * code.RATE), samples[part])
        for part in tapped.parts(len(samples))
    ]
    length = max(0, *(at + len(part) for at, part in parts)) if seconds is None else round(seconds * code.RATE)
    when = np.zeros(length, np.float32)
    for at, part in parts:
        inside = part[max(0, -at) : max(0, length - at)]
        when[max(0, at) : max(0, at) + len(inside)] = inside
    return when


class _Track:
    """The times of a tapped track's samples."""

    def __init__(self, rate: float, marks: Sequence[tuple[int, float, float]], excerpts: Sequence[Any]) -> None:
        self._rate, self._excerpts = rate, excerpts
        # The block that reached the page soonest gives the offset of the track's clock to Unix time.
        ahead = min(arrived / 1e3 - at / 1e6 for _, at, arrived in marks)
        parts: list[list[tuple[int, float]]] = []
        for index, at, _ in marks:
            if parts and abs(at - parts[-1][0][1] - (index - parts[-1][0][0]) / rate * 1e6) <= _LEAP_US:
                parts[-1].append((index, at))
            else:
                parts.append([(index, at)])
        self._firsts = np.array([part[0][0] for part in parts])
        # A device's timer jitters by 0.1 ms: the middle of a part's marks.
        self._begun = np.array([np.median([at / 1e6 - index / rate for index, at in part]) for part in parts]) + ahead

    @classmethod
    def of(cls, event: str, lines: Iterable[Mapping[str, Any]]) -> _Track | None:
        details = [line["detail"] for line in lines if line.get("event") == event]
        marks = [mark for detail in details for mark in detail["marks"]]
        excerpts = [excerpt for detail in details for excerpt in detail.get("excerpts", ())]
        return cls(details[0]["rate"], marks, excerpts) if marks else None

    def times(self, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the times (Unix s) of samples."""
        part = np.maximum(np.searchsorted(self._firsts, indices, "right") - 1, 0)
        return np.asarray(self._begun[part] + indices / self._rate, np.float64)

    def parts(self, count: int) -> list[slice]:
        """Return the samples without a leap in their times between them, of `count` samples."""
        return [slice(first, end) for first, end in pairwise([*self._firsts.tolist(), count])]

    def excerpts(self) -> list[Excerpt]:
        """Return the excerpts, with samples between -1 and 1."""
        return [
            Excerpt(
                float(self.times(np.array([index]))[0]), self._rate, np.array(thinned, np.float32) / np.float32(32768)
            )
            for index, thinned in self._excerpts
        ]

    def anchors(self) -> list[tuple[float, float]]:
        """Return, for every excerpt with a place, its time and when the loop had begun for it (Unix s)."""
        known = []
        for index, thinned in self._excerpts:
            at = np.arange(int(len(thinned) * _THINNED / self._rate * code.RATE)) / code.RATE * self._rate / _THINNED
            samples = np.interp(at, np.arange(len(thinned)), np.array(thinned, np.float64) / 32768)
            if (place := heard.place(samples.astype(np.float32))) is not None:
                t = float(self.times(np.array([index]))[0])
                known.append((t, t - place / code.RATE))
        return known


def _sound(
    times: NDArray[np.float64],
    found: NDArray[np.float64],
    spoken: Sequence[tuple[float, float]],
    silent: Sequence[Window],
) -> Sound:
    """Return what was heard: `times` (Unix s) and places (ms of the loop) of every ms, and the anchors of the mouth.

    `silent` are the speaker's pauses (Unix s).
    """
    at, begun = np.array(spoken).T
    origin = begun[np.maximum(np.searchsorted(at, times, "right") - 1, 0)]
    # Nobody hears what has not been spoken; what was spoken a loop ago is taken for new.
    late = np.mod(times - origin - found / 1e3 + 1, code.LOOP_S) - 1
    place = times - late  # Unix s when this ms was spoken
    gap = np.isnan(place)
    newest = np.fmax.accumulate(np.concatenate([[-np.inf], place[:-1]]))
    table = pl.DataFrame({"t": times, "gap": gap, "repeated": ~gap & (place < newest)})
    pause = pl.Series(gap & _quiet(times, late, silent))
    table = table.with_columns(pl.when(~pause).then(pl.col("gap", "repeated")))
    slots = np.floor((place[~gap] - begun[0]) * 1e3 / _SLOT_MS).astype(np.int64)
    known = (
        pl.DataFrame({"slot": slots, "delay_ms": late[~gap] * 1e3})
        .group_by("slot")
        .agg(pl.len(), pl.median("delay_ms"))
        .filter(pl.col("len") >= _SLOT_MS / 2)
        .drop("len")
    )
    # Before its first excerpt, the mouth may not have spoken.
    since = int(np.ceil((max(times[0], at[0]) - begun[0]) * 1e3 / _SLOT_MS))
    last = int(np.floor((times[-1] - UNDER_WAY_S - begun[0]) * 1e3 / _SLOT_MS))
    first, end = min([since, *known["slot"]]), max([last, *known["slot"]])
    tones = pl.DataFrame({"slot": np.arange(first, end + 1)}).join(known, on="slot", how="left").sort("slot")
    tones = tones.select(t=begun[0] + pl.col("slot") * (_SLOT_MS / 1e3), delay_ms="delay_ms")
    return Sound(tones.filter(~_inside(tones["t"].to_numpy(), silent)), table)


def _quiet(times: NDArray[np.float64], late: NDArray[np.float64], silent: Sequence[Window]) -> NDArray[np.bool_]:
    """Return for every ms of the listener's sound whether the speaker was silent for it.

    Its delay `late` (s) is unknown there: it is that of the last ms with a place, or of the next.
    """
    if not silent:
        return np.zeros(len(times), np.bool_)
    known = pl.Series(late, dtype=pl.Float64).fill_nan(None)
    delays = (known.fill_null(strategy=way).fill_null(0).to_numpy() for way in ("forward", "backward"))
    before, after = (_inside(times - delay, silent) for delay in delays)
    return before | after


def _inside(times: NDArray[np.float64], windows: Sequence[Window]) -> NDArray[np.bool_]:
    """Return which times are in a window or close to one; windows are in order of time."""
    if not windows:
        return np.zeros(len(times), np.bool_)
    starts, ends = (np.array(bounds) for bounds in zip(*windows, strict=True))
    at = np.searchsorted(starts - _CUT_S, times, "right") - 1
    inside: NDArray[np.bool_] = (at >= 0) & (times < ends[at] + _CUT_S)
    return inside
