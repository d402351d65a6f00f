# SPDX-License-Identifier: Apache-2.0
"""The scorers of pictures without a strip, against recordings of which everything is known (benchmarks/recordings.py).

    python -m benchmarks.scorers --first-seed 10000 --seeds 36
    python -m benchmarks.scorers --seeds 0 --run RUN --run RUN

The second line takes real runs, whose strips the scorers do not read: these tell the truth.
Freezes of 0.2 s and longer by family, from the picture alone and with the player's log, beside ffmpeg's freezedetect;
the rendition of each second; and how long scoring takes. Seeds from 10 000 on are held out: nothing was tuned on them.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import recordings
from sojourn.captures.screen import FPS
from sojourn.scoring.picture import frames, freezes, rendition
from sojourn.scoring.picture.blind import motion, resolution, stills, viewer

Span = tuple[float, float]  # from, to in s since the recording's start
LONG_S, SHORT_S = freezes.STALL_S, stills.SHORTEST_S
WAYS = ("picture", "picture and player", "freezedetect")


@dataclass(frozen=True)
class Known:
    """A recording and the truth of it, all times in s since its start.

    Frame `frame[i]` of the source was on the screen at `t[i]`; `heights` are (from, to, rung); `lines` those of
    player.jsonl; `stops` are (onset, where) of what was made to freeze; `families` what the tables tell apart.
    """

    video: Path
    t: npt.NDArray[np.float64]
    frame: npt.NDArray[np.int64]
    heights: list[tuple[float, float, int]]
    lines: list[dict[str, Any]]
    stops: list[tuple[float, str]]
    families: list[str]

    @classmethod
    def of_recording(cls, made: recordings.Recording) -> Known:
        case, start = made.case, recordings.START
        return cls(
            made.video,
            made.frames["t"].to_numpy() - start,
            made.frames["frame"].to_numpy(),
            [(a - start, b - start, height) for a, b, height in made.heights],
            [line | {"t": line["t"] - start} for line in made.samples],
            [(onset - start, where) for onset, _, where in made.stops],
            [case.codec, f"noise {case.noise:g}", f"{case.box[3]} lines"],
        )

    @classmethod
    def of_run(cls, run: Path) -> Known:
        """A run of a stand-in, by its strip."""
        start = json.loads((run / "screen.json").read_text())["start"]
        clip = json.loads((run / "lab.json").read_text())["clip"]
        shown = frames.read_recording(run / "screen.mp4")
        segments = rendition.from_recording(shown, clip["heights"])
        read = shown.with_columns(frames.unwrap(shown["frame"], clip["frames"])).drop_nulls()
        lines = [json.loads(line) for line in (run / "player.jsonl").open()]
        return cls(
            run / "screen.mp4",
            read["t"].to_numpy(),
            read["frame"].to_numpy(),
            [(s.start, s.end, s.height) for s in segments],
            [line | {"t": line["t"] - start} for line in lines],
            [],
            ["real runs"],
        )


@dataclass
class Outcome:
    """What one recording gave: true freezes with their family, found ones by way, undecided ones, and seconds."""

    truth: list[tuple[Span, str]]
    found: dict[str, list[Span]]
    undecided: list[Span]
    renditions: list[tuple[str, int, int]]  # family, true, told
    changes: tuple[int, int, int]  # rendition changes: true, found within 1 s, told where there is none within 1 s
    length: float
    seconds: dict[str, float]
    peak_mb: float
    families: list[str]


def true_freezes(known: Known) -> list[tuple[Span, str]]:
    """Every time for which one picture was on the screen for SHORT_S or longer, and where it was put."""
    t = known.t
    starts = np.flatnonzero(np.concatenate([[True], np.diff(known.frame) != 0]))
    ends = np.append(t[starts[1:]], t[-1] + 1 / FPS)
    spans = []
    for start, end in zip(t[starts], ends, strict=True):
        if end - start >= SHORT_S - 1e-6:
            at = [where for onset, where in known.stops if abs(onset - start) < 0.1]
            spans.append(((float(start), float(end)), at[0] if at else "motion"))
    return spans


def freezedetect(video: Path) -> list[Span]:
    """What ffmpeg's freezedetect finds, with its own noise floor and from SHORT_S on."""
    command = [
        "ffmpeg",
        "-hide_banner",
        "-nostdin",
        "-i",
        str(video),
        "-vf",
        f"freezedetect=d={SHORT_S}",
        "-f",
        "null",
        "-",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    starts = [float(text) for text in re.findall(r"freeze_start: ([\d.]+)", said)]
    ends = [float(text) for text in re.findall(r"freeze_end: ([\d.]+)", said)]
    last = recordings_length(said)
    return list(zip(starts, [*ends, last][: len(starts)], strict=True))


def recordings_length(said: str) -> float:
    hours, minutes, seconds = re.findall(r"Duration: (\d+):(\d+):([\d.]+)", said)[0]
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def judge(case: int | Path) -> Outcome:
    """Score the recording of a seed, or that of a run, in every way."""
    if isinstance(case, Path):
        return outcome(Known.of_run(case))
    with tempfile.TemporaryDirectory() as folder:
        return outcome(Known.of_recording(recordings.make(case, Path(folder))))


def outcome(known: Known) -> Outcome:
    begun = time.monotonic()
    place = motion.locate(known.video)
    assert place is not None
    seen = motion.watch(known.video, place)
    spent = {"scored": time.monotonic() - begun}
    # Two frames of a real recording may share a tick of the output's clock: an "error" in its eyes, not a fatal one.
    decode = ["ffmpeg", "-v", "fatal", "-nostdin", "-i", str(known.video), "-fps_mode", "passthrough"]
    decode += ["-f", "null", "-"]
    begun = time.monotonic()
    subprocess.run(decode, check=True)
    spent["decoded"] = time.monotonic() - begun
    alone, helped = stills.stills(seen, 0.0), stills.stills(seen, 0.0, known.lines)

    def spans(found: Iterable[stills.Still], frozen: bool | None = True) -> list[Span]:
        return [(s.onset, s.onset + s.length) for s in found if s.frozen is frozen]

    reported = viewer.heights(seen, place)
    rungs = resolution.classes(resolution.LADDER, resolution.video_lines(place.height, place.width))
    truth = [(a, b, min([height, max(rungs)])) for a, b, height in known.heights]
    renditions = []
    for second, height in reported.items():
        shown = {rung for a, b, rung in truth if a < second + 1 and b > second}
        if len(shown) == 1:
            renditions += [(name, next(iter(shown)), height) for name in known.families]
    true_at = [start for (*_, before), (start, _, after) in pairwise(truth) if before != after]
    changes = [float(b) for (a, x), (b, y) in pairwise(reported.items()) if x != y]
    near = [any(abs(a - b) <= 1 for b in changes) for a in true_at]
    wrong = [not any(abs(a - b) <= 1 for b in true_at) for a in changes]
    return Outcome(
        true_freezes(known),
        {"picture": spans(alone), "picture and player": spans(helped), "freezedetect": freezedetect(known.video)},
        spans(alone, None), renditions, (len(true_at), sum(near), sum(wrong)), float(seen.t[-1]), spent,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, known.families,
    )  # fmt: skip


def hits(true: Span, spans: Sequence[Span]) -> Span | None:
    """The first found freeze that covers half of the true one."""
    return next((s for s in spans if min(true[1], s[1]) - max(true[0], s[0]) >= 0.5 * (true[1] - true[0])), None)


def freeze_table(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """A row for each way, length and family: n, recall, precision, errors of onset and length."""
    rows = []
    for way in WAYS:
        for name, low, high in (
            (f"{LONG_S:g} s and longer", LONG_S, np.inf),
            (f"{SHORT_S:g} to {LONG_S:g} s", SHORT_S, LONG_S),
        ):
            families: dict[str, list[tuple[Outcome, Span]]] = defaultdict(list)
            for it in outcomes:
                for span, where in it.truth:
                    if low - 1e-6 <= span[1] - span[0] < high:
                        for family in ("all", where, *it.families):
                            families[family].append((it, span))
            for family, members in families.items():
                matched = [(span, hits(span, it.found[way])) for it, span in members]
                caught = [(span, hit) for span, hit in matched if hit]
                onsets = [abs(hit[0] - span[0]) * 1e3 for span, hit in caught]
                lengths = [abs(hit[1] - hit[0] - span[1] + span[0]) * 1e3 for span, hit in caught]
                row: dict[str, Any] = {"way": way, "freezes": name, "family": family, "n": len(members)}
                row["recall"] = len(caught) / len(members)
                if family == "all":
                    claimed = [(it, s) for it in outcomes for s in it.found[way] if low <= s[1] - s[0] < high]
                    right = sum(any(hits(s, [t]) for t, _ in it.truth) for it, s in claimed)
                    row["precision"] = right / len(claimed) if claimed else None
                for key, values, percent in (
                    ("onset ms P50", onsets, 50), ("onset ms P95", onsets, 95), ("length ms P95", lengths, 95),
                ):  # fmt: skip
                    row[key] = float(np.percentile(values, percent)) if values else None
                rows.append(row)
    return rows


def rendition_table(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Share of seconds told right, by codec, noise and display."""
    of: dict[str, list[bool]] = defaultdict(list)
    for it in outcomes:
        for family, true, reported in it.renditions:
            of[family].append(true == reported)
            if family == it.families[0]:
                of["all"].append(true == reported)
    return [
        {"family": name, "seconds": len(right), "right": sum(right) / len(right)} for name, right in sorted(of.items())
    ]


def main(
    first_seed: Annotated[
        int, typer.Option(help="Below 10000: tuning; from 10000 on: held out.")
    ] = recordings.HELD_OUT,
    seeds: Annotated[int, typer.Option(help="36 take every codec, noise and display once.")] = 36,
    run: Annotated[list[Path], typer.Option(help="Folder of a run whose picture carries a strip.")] = [],  # noqa: B006
    processes: int = 2,
) -> None:
    console = Console(width=160)
    with ProcessPoolExecutor(processes) as pool:
        cases = [*range(first_seed, first_seed + seeds), *run]
        outcomes = list(track(pool.map(judge, cases), "recordings", total=len(cases), console=console))
    for title, rows in (
        ("Freezes", freeze_table(outcomes)),
        ("Rendition, seconds of one rung", rendition_table(outcomes)),
    ):
        if not rows:
            console.print(f"{title}: none")
            continue
        table = Table(*rows[0], title=title)
        for row in rows:
            table.add_row(
                *(
                    f"{row.get(key):.3f}" if isinstance(row.get(key), float) else str(row.get(key, ""))
                    for key in rows[0]
                )
            )
        console.print(table)
    true, near, wrong = (sum(it.changes[n] for it in outcomes) for n in range(3))
    console.print(f"rendition changes: {near} of {true} told within 1 s, {wrong} told where there is none")
    undecided = sum(b - a for it in outcomes for a, b in it.undecided)
    length = sum(it.length for it in outcomes)
    spent = {name: sum(it.seconds[name] for it in outcomes) for name in ("scored", "decoded")}
    console.print(
        f"{length:.0f} s of {FPS} frames a second, {undecided:.0f} s of them undecided by the picture alone; scored "
        f"in {spent['scored'] / length:.3f} of it, {spent['scored'] / spent['decoded']:.1f} x ffmpeg's decoding; "
        f"peak {max(it.peak_mb for it in outcomes):.0f} MB ({processes} at once)"
    )


if __name__ == "__main__":
    typer.run(main)
