# SPDX-License-Identifier: Apache-2.0
"""``report.html`` of a run: one page without anything from elsewhere, but for the recording beside it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from markupsafe import Markup
from pydantic import ValidationError

from harness.report.html import write_page
from harness.report.svg import Panel, Points, ccdf_plot, time_plot
from harness.store.runs import MANIFEST, Manifest, read_manifest
from scoring.scores import OWN, Curve, PhaseScores, Scores
from scoring.time_series import RunView, view_of

if TYPE_CHECKING:
    from scoring.intervals import Estimate

SCORES = "scores.json"
REPORT = "report.html"
#: Versions of which there are hundreds, by how their names begin: a simulated run's bytes depend on all of them.
_MANY = ("guest ", "processor flags")
#: Facts of published runs of live services; its first line names the document.
_PUBLISHED = Path(__file__).parents[2] / "scoring" / "reference" / "video_harm.csv"
_FRAME_AXIS = "from the camera to the screen (ms)"
_SOJOURN_AXIS = "sojourn time in the router, less the path's delay (ms)"
#: A harm from which a cell is marked: a tenth of what the victim had alone.
_MARKED = 0.1
#: The metrics of harm: what they are called, and their units.
METRICS = {
    "victim_mbps": ("goodput of the victim", "Mbit/s"),
    "mean_height": ("mean height of the picture", "lines"),
    "fps": ("displayed frame rate", "frames/s"),
    "stall_s_per_min": ("stalled", "s per min"),
    "freezes_per_min": ("freezes (WebRTC)", "per min"),
    "drops_per_min": ("drops of resolution", "per min"),
    "rtt_p99_ms": ("RTT of the probe, P99", "ms"),
    "frame_p99_ms": ("camera to screen, P99", "ms"),
}


class ReportError(RuntimeError):
    """A run has no scores that a report could show."""


@dataclass
class Row:
    """A row of a table; ``hurt`` holds the numbers of the cells to mark, the row's head is cell 0."""

    cells: list[str]
    beside: bool = False
    hurt: set[int] = field(default_factory=set)


@dataclass
class Grid:
    """A table with a head."""

    caption: str
    heads: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


def read_scores(run: Path) -> Scores:
    """Return the scores stored in a run. Raises ReportError when there are none or they are no scores."""
    try:
        return Scores.model_validate_json((run / SCORES).read_bytes())
    except OSError as error:
        raise ReportError(f"{run}: {SCORES}: {error.strerror}; `sojourn rescore` makes it") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ReportError(f"{run}: {SCORES}: {where}: {first['msg']}; `sojourn rescore` makes it") from error


def write_report(run: Path, scores: Scores | Mapping[str, Any], manifest: Manifest | None = None) -> Path:
    """Write ``report.html`` into the run and return its path.

    ``manifest`` is that of a run not committed yet; without it the one in the run is read if it is there.
    """
    scores = scores if isinstance(scores, Scores) else Scores.model_validate(scores)
    if manifest is None and (run / MANIFEST).exists():
        manifest = read_manifest(run)
    return write_page("report.html.j2", _content(run, scores, manifest), run / REPORT)


def _content(run: Path, scores: Scores, manifest: Manifest | None) -> dict[str, Any]:
    view = view_of(scores, run)
    lab = scores.lab
    status, reasons = status_of(scores, manifest)
    screen = _json(run / "screen.json")
    curves = [
        (name, f"c{index % 6}" + ("" if contender else " solo-curve"), points)
        for index, (name, contender, points) in enumerate(view.ccdfs)
        if points
    ]
    waits = _plotted(scores, scores.sojourn_ccdf)
    frames = _plotted(scores, scores.frame_ccdf)
    return {
        "title": manifest.run if manifest else run.name,
        "subtitle": f"{lab.get('name') or 'lab'}: {(lab.get('rate_down_bps') or 0) / 1e6:g} Mbit/s through "
        f"{lab.get('qdisc_down')}, RTT {number(lab.get('rtt_ms'))} ms",
        "status": status,
        "reasons": reasons,
        "verdict": headline(scores),
        "harm": harm_table(scores),
        "published": published_table(scores, str(_json(run / "options.json").get("service", ""))),
        "phases": phase_table(scores),
        "timeline_svg": Markup(time_plot(panels(view), _phases(view), "Goodput, quality and queue over time")),
        "video": "screen.mp4" if (run / "screen.mp4").exists() else "",
        "video_offset": f"{screen.get('start', scores.t0) - scores.t0:.3f}",
        "ccdf_svg": Markup(ccdf_plot(curves, "CCDF of the probe's round-trip time")) if curves else "",
        "far": far_table(scores),
        "frames_svg": Markup(ccdf_plot(frames, "CCDF of the frames' latency", axis=_FRAME_AXIS)),
        "frames_key": [(name, int(kind[1])) for name, kind, _ in frames],
        "ccdf_key": [(name, int(kind[1])) for name, kind, _ in curves],
        "sojourn": sojourn_table(scores),
        "sojourn_svg": Markup(ccdf_plot(waits, "CCDF of the packets' sojourn time", axis=_SOJOURN_AXIS)),
        "sojourn_key": [(name, int(kind[1])) for name, kind, _ in waits],
        "details": _details(run, scores, manifest),
        "command": shlex.join(manifest.command_line) if manifest else "",
    }


def _plotted(scores: Scores, curves: Sequence[Curve]) -> list[tuple[str, str, Points]]:
    """The curves of contender phases and of all solo ones together, as ``ccdf_plot`` takes them."""
    beside = {phase.name for phase in scores.phases if phase.contender} | {"solo"}
    shown = [curve for curve in curves if curve.name.split()[0] in beside and curve.ms]
    plain = [curve.name for curve in shown if not curve.name.endswith(OWN)]

    def kind(name: str) -> str:
        """What the queue itself tells is dashed, in the colour of its packets."""
        packets = name.removesuffix(OWN)
        colour = plain.index(packets) if packets in plain else len(plain)
        return f"c{colour % 6}" + (" solo-curve" if name.endswith(OWN) else "")

    return [(c.name, kind(c.name), list(zip(c.ms, c.percent, strict=True))) for c in shown]


def status_of(scores: Scores, manifest: Manifest | None) -> tuple[str, list[str]]:
    """Return valid, void or interrupted, and why it is not valid."""
    reasons = scores.validity.reasons
    if manifest and manifest.status == "interrupted" and manifest.finished:
        return "interrupted", [*manifest.reasons, *reasons]
    told = [reason for reason in (manifest.reasons if manifest else []) if reason not in reasons]
    unfinished = manifest is not None and manifest.status == "interrupted" and manifest.finished is None
    reasons += [] if unfinished and scores.validity.valid else told
    return ("void", reasons) if reasons else ("valid", [])


def headline(scores: Scores) -> str:
    """Return the outcome of a valid run in a sentence: what each contender did to the picture."""
    told = (f"beside {phase.name} {_outcome(scores, phase)}" for phase in scores.phases if phase.contender)
    sentence = "; ".join(told)
    return sentence[:1].upper() + sentence[1:] + "." if sentence else "No contender competed."


def _outcome(scores: Scores, phase: PhaseScores) -> str:
    solo = scores.baseline.dominant_height if scores.baseline else None
    lowest, stalls = phase.lowest_height, phase.stalls or 0
    lost = solo is not None and lowest is not None and lowest < solo
    picture = f"the picture falls from {solo}p to {lowest}p" if lost else f"the picture keeps {solo}p"
    stalled = f"stalls {stalls} times ({phase.stall_s:.1f} s)" if stalls > 1 else "stalls once"
    return f"{picture} and {stalled if stalls else 'never stalls'}"


def published_services() -> list[str]:
    """Return the services that have published figures, in their order."""
    return pl.read_csv(_PUBLISHED, comment_prefix="#")["service"].unique(maintain_order=True).to_list()


def published_table(scores: Scores, service: str) -> Grid:
    """Return this run's contenders above the published ones of the live ``service``; no rows without any."""
    heads = ["", "contender", "bottleneck", "contender Mbit/s", "harm"]
    grid = Grid('This run beside "L4S Tests", Harm to Video Streaming Services.', heads)
    published = pl.read_csv(_PUBLISHED, comment_prefix="#").filter(pl.col("service") == service)
    rate, queue = (scores.lab.get("rate_down_bps") or 0) / 1e6, scores.lab.get("qdisc_down")
    for phase in scores.phases if published.height else ():
        if phase.contender:
            harm = _outcome(scores, phase) if scores.validity.valid else "void: not told"
            mbps = number(phase.contender_mbps)
            grid.rows.append(Row(["this run", phase.contender, f"{rate:g} Mbit/s, {queue}", mbps, harm], True))
    for row in published.iter_rows(named=True):
        place = f"{row['bottleneck_mbps']:g} Mbit/s, {row['qdisc']}, {row['protocol']}"
        grid.rows.append(Row(["published", row["contender"], place, f"{row['contender_mbps']:g}", row["harm"]]))
    return grid


def services_table(runs: Sequence[tuple[Path, Scores]]) -> Grid:
    """Return the published table, a row a service, with what `runs` gave beside it; no rows without such a run."""
    published = pl.read_csv(_PUBLISHED, comment_prefix="#")
    ours: dict[str, list[Scores]] = {}
    for path, scores in runs:
        ours.setdefault(str(_json(path / "options.json").get("service", "")), []).append(scores)
    contenders = published["contender"].unique(maintain_order=True).to_list()
    heads = ["service", "bottleneck", "ours"]
    heads += [head for name in contenders for head in (f"beside {name}, published", f"beside {name}, ours")]
    grid = Grid('"L4S Tests", Harm to Video Streaming Services (live services), and our stand-ins.', heads)
    for (service,), rows in published.group_by("service", maintain_order=True):
        if found := ours.get(str(service)):
            first = rows.row(0, named=True)
            lab = found[0].lab
            cells = [str(service), f"{first['bottleneck_mbps']:g} Mbit/s, {first['qdisc']}"]
            cells.append(f"{(lab.get('rate_down_bps') or 0) / 1e6:g} Mbit/s, {lab.get('qdisc_down')}")
            for row in rows.iter_rows(named=True):
                cells += [f"{row['contender_mbps']:g} Mbit/s; {row['harm']}", _beside(found, row["contender"])]
            grid.rows.append(Row(cells))
    return grid


def _beside(runs: Sequence[Scores], contender: str) -> str:
    """What runs gave beside a contender, in the words of the published table."""
    valid = [scores for scores in runs if scores.validity.valid]
    if len(valid) > 1:
        return _over_runs(valid, contender, len(runs) - len(valid))
    if not valid:
        return "void"
    phases = [phase for phase in valid[0].phases if phase.contender == contender]
    told = (f"{number(phase.contender_mbps)} Mbit/s; {_outcome(valid[0], phase)}" for phase in phases)
    void = len(runs) - 1
    return (", ".join(told) or "not run") + (f" / {void} void" if void else "")


def _over_runs(runs: Sequence[Scores], contender: str, void: int) -> str:
    from scoring.summary import summarise  # with SciPy, which one run does without

    summary = summarise({str(index): scores for index, scores in enumerate(runs)})
    parts = {"contender_mbps": "{} Mbit/s", "below_solo_s": "below its picture alone for {} s",
             "stalls": "stalls {}", "stall_s": "of {} s in all", "freezes": "freezes {}"}  # fmt: skip
    figures = {name: figure.beside.get(contender) for name in parts if (figure := summary.figure(name))}
    told = [parts[name].format(interval(figure)) for name, figure in figures.items() if figure]
    return "; ".join([*told, f"{len(runs)} runs", *([f"{void} void"] if void else [])])


def panels(view: RunView) -> list[Panel]:
    """Return the strips of the timeline: goodput, quality with freezes, and what the queue told."""
    goodput = Panel("goodput (Mbit/s)", 190, _top(view.victim, view.contender))
    goodput.lines = [("contender", view.contender), ("victim", view.victim)]
    rungs = {height: rung + 1 for rung, height in enumerate(view.heights)}
    quality = Panel("quality shown", 42 + 26 * len(rungs), len(rungs) + 0.5)
    quality.labels = [(rung, f"{height}p") for height, rung in rungs.items()]
    quality.steps = [(start, end, rungs[height]) for start, end, height in view.quality]
    stalls = [f for f in view.frozen if f.kind == "stall"]
    for frozen in sorted(view.frozen, key=lambda f: f.kind != "webrtc"):
        # A stall is a freeze by the other definition as well: it is drawn once.
        if frozen.kind == "stall" or not any(abs(frozen.start - s.start) < 0.05 for s in stalls):
            kind = "stall" if frozen.kind == "stall" else "freeze"
            tip = f"{kind} of {frozen.length:.2f} s at {frozen.start:.1f} s"
            quality.spans.append((kind, frozen.start, frozen.length, tip))
    found = [goodput, quality]
    if view.rtt_max:
        title = "RTT of the probe (ms): median (blue), largest of each half second (brown)"
        lines: list[tuple[str, Points]] = [("c3", view.rtt_max), ("c0", view.rtt_p50)]
        found.append(Panel(title, 100, _top(view.rtt_max), lines=lines))
    queue = view.queue
    if queue.backlog_ms:
        title = f"backlog of {queue.kind} at the bottleneck's rate (ms)"
        found.append(Panel(title, 100, _top(queue.backlog_ms), lines=[("c2", queue.backlog_ms)]))
    for name, points in queue.delays_ms.items():
        found.append(Panel(f"{name} of {queue.kind} (ms)", 80, _top(points), lines=[("c3", points)]))
    if any(value for _, value in [*queue.marks_per_s, *queue.drops_per_s]):
        title = f"CE marks (purple) and drops (red) per second of {queue.kind}"
        lines = [("c2", queue.marks_per_s), ("c5", queue.drops_per_s)]
        found.append(Panel(title, 100, _top(queue.marks_per_s, queue.drops_per_s), lines=lines))
    return found


def _top(*series: Points) -> float:
    return max((value for points in series for _, value in points if value is not None), default=1.0) * 1.05 or 1.0


def _phases(view: RunView) -> list[tuple[str, str, float, float]]:
    return [(p.name, "beside" if p.contender else "solo", p.start, p.end) for p in view.phases]


def harm_table(scores: Scores) -> Grid:
    grid = Grid(
        "Value beside each contender, and harm: 0 none, 1 the worst, below 0 better than alone. "
        "Alone: the solo phases, less the time in which the player recovers."
    )
    names = list(dict.fromkeys(harm.phase for harm in scores.harm))
    grid.heads = ["", "alone", *(head for name in names for head in (f"beside {name}", "harm"))]
    by_key = {(harm.metric, harm.phase): harm for harm in scores.harm}
    for metric, (label, unit) in METRICS.items():
        cells, hurt = [f"{label} ({unit})"], set()
        for name in names:
            harm = by_key.get((metric, name))
            if harm and len(cells) == 1:
                cells.append(number(harm.solo))
            cells += [number(harm.value), f"{harm.harm:.2f}"] if harm else ["–", "–"]
            if harm and harm.harm >= _MARKED:
                hurt |= {len(cells) - 2, len(cells) - 1}
        if any((metric, name) in by_key for name in names):
            grid.rows.append(Row(cells, hurt=hurt))
    return grid


_PHASE_COLUMNS: list[tuple[str, Callable[[PhaseScores], str]]] = [
    ("phase", lambda p: p.name),
    ("s", lambda p: number(p.seconds)),
    ("victim Mbit/s", lambda p: number(p.victim_mbps)),
    ("contender Mbit/s", lambda p: number(p.contender_mbps) if p.contender else "–"),
    ("mostly", lambda p: f"{p.dominant_height}p" if p.dominant_height else "–"),
    ("lowest", lambda p: f"{p.lowest_height}p" if p.lowest_height else "–"),
    ("drops", lambda p: number(p.drops)),
    ("frames/s", lambda p: number(p.fps)),
    ("stalls", lambda p: number(p.stalls)),
    ("stalled s", lambda p: number(p.stall_s)),
    ("freezes", lambda p: number(p.freezes)),
    ("RTT P50 ms", lambda p: number(p.rtt_p50_ms)),
    ("P99 ms", lambda p: number(p.rtt_p99_ms)),
    ("max ms", lambda p: number(p.rtt_max_ms)),
    ("camera to screen P50 ms", lambda p: number(p.frame_p50_ms)),
    ("camera to screen P99 ms", lambda p: number(p.frame_p99_ms)),
    ("probes lost", lambda p: "–" if p.probe_loss is None else f"{p.probe_loss:.2%}"),
]


def phase_table(scores: Scores) -> Grid:
    return _phase_table("What was measured in each phase.", scores, scores.phases)


def far_table(scores: Scores) -> Grid:
    """Return what the other end of a call saw; no rows without one."""
    return _phase_table("What the call's other end saw: the way up.", scores, scores.far)


def _phase_table(caption: str, scores: Scores, phases: Sequence[PhaseScores]) -> Grid:
    """A row a phase; a column that has nothing to tell in any of them is left out."""
    columns = [(head, cells) for head, tell in _PHASE_COLUMNS if set(cells := [tell(p) for p in phases]) - {"–"}]
    lines = zip(*(cells for _, cells in columns), strict=True)
    rows = [Row(list(line), bool(phase.contender)) for phase, line in zip(phases, lines, strict=True)]
    void = "" if scores.validity.valid else " VOID: for diagnosis only, no result."
    return Grid(caption + void, [head for head, _ in columns], rows)


def sojourn_table(scores: Scores) -> Grid:
    """Return what the router did to each sender's packets on their way down; no rows without both captures."""
    grid = Grid("The way down through the router, packet by packet: the same packet in both captures.")
    counted = ["packets", "lost", "marked CE", "late", "alike"]
    grid.heads = ["phase", "packets of", "queue", *counted, "P50 ms", "P90", "P99", "max"]
    beside = {phase.name for phase in scores.phases if phase.contender}
    for it in scores.sojourn:
        of = "the qdisc's own" if it.of == "qdisc" else it.of
        counts = [number(it.packets), *(_share(part, it.packets) for part in (it.lost, it.marked))]
        counts += [number(it.late), number(it.alike)]
        times = [number(ms) for ms in (it.p50_ms, it.p90_ms, it.p99_ms, it.max_ms)]
        grid.rows.append(Row([it.phase, of, it.queue, *counts, *times], it.phase in beside))
    return grid


def _share(part: int | None, whole: int) -> str:
    return number(part) if not part else f"{part} ({part / whole:.2%})"


def _details(run: Path, scores: Scores, manifest: Manifest | None) -> list[dict[str, Any]]:
    gates = [
        (("✓ " if gate.ok else "✗ ") + gate.name, f"{gate.measured} (wanted: {gate.limit})")
        for gate in scores.validity.gates
    ]
    lab = scores.lab
    setup = [
        ("lab", lab.get("name") or "–"),
        ("queue, down / up", f"{lab.get('qdisc_down')} / {lab.get('qdisc_up')}"),
        ("rate, down / up", " / ".join(_mbit(lab.get(f"rate_{way}_bps")) for way in ("down", "up"))),
        ("round-trip time of the path", f"{number(lab.get('rtt_ms'))} ms"),
        (
            "picture read from",
            {"strip": "the strip in the recording", "blind": "the motion in the recording", "player": "the player"}.get(
                scores.picture, "–"
            ),
        ),
    ]
    if scores.blind:
        undecided, differing = scores.blind.undecided, scores.blind.differing
        setup += [
            (
                "freeze or still scene, undecided",
                ", ".join(f"{t:.1f} s (for {n:.1f} s)" for t, n in undecided) or "none",
            ),
            (
                "seconds whose picture tells another height than the player",
                f"{len(differing)} of {len(scores.blind.heights)}",
            ),
        ]
    setup += lab_table(scores)
    for flow in scores.flows:
        rate = "" if flow.d_ss_mbps is None else f"D_SS {number(flow.d_ss_mbps)} Mbit/s, "
        ecn = f"ECT(1) {flow.ect1}, ECT(0) {flow.ect0}, Not-ECT {flow.not_ect}, CE {flow.ce}"
        told = f"{rate}{flow.data_packets} data packets: {ecn}; resent {flow.resent}"
        setup.append((f"contender in {flow.phase}", told))
    if manifest:
        setup.append(("seed", str(manifest.seed)))
    versions = sorted(versions_of(run, manifest).items())
    tables = [
        {"title": "Validity", "rows": gates, "folded": False},
        {"title": "Set-up", "rows": setup, "folded": False},
        {"title": "Versions", "rows": [row for row in versions if not row[0].startswith(_MANY)], "folded": False},
        {"title": "Guest and processor", "rows": [row for row in versions if row[0].startswith(_MANY)], "folded": True},
    ]
    return [table for table in tables if table["rows"]]


def versions_of(run: Path, manifest: Manifest | None) -> dict[str, str]:
    """Return the versions of everything that took part in a run, Sojourn's commit among them."""
    versions = {name: str(told) for name, told in _json(run / "lab.json").get("versions", {}).items()}
    if manifest:
        versions |= manifest.versions
        if manifest.git:
            dirty = " with changes" if manifest.git.dirty else ""
            versions["Sojourn"] = f"commit {manifest.git.commit[:12]}{dirty}"
    return versions


def lab_table(scores: Scores) -> list[tuple[str, str]]:
    """Return what the lab itself adds to the measurement: (name, text)."""
    found, jitter, host = [], scores.jitter_ms, scores.host
    if jitter:
        told = f"P50 {number(jitter.p50)}, P99 {number(jitter.p99)}, max {number(jitter.max)} ms"
        found.append(("unshaped probe above the path's RTT", told))
    if host:
        used = f"mean {number(host.cpu_cores_mean)}, max {number(host.cpu_cores_max)} of {host.cores} cores"
        found.append(("host", f"{used}; worst stall {number(host.stall_worst_ms)} ms"))
    return found


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def interval(figure: Estimate | None) -> str:
    """Return a figure with its interval in brackets, as text."""
    if figure is None:
        return "–"
    if figure.low is None or figure.high is None or figure.low == figure.high == figure.value:
        return number(figure.value)
    return f"{number(figure.value)} ({number(figure.low)} to {number(figure.high)})"


def number(value: float | int | None) -> str:
    """Return a figure as a table shows it; a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:.0f}"
    # Adding 0.0 takes the sign off a rounded nothing.
    return f"{round(value, 2) + 0.0:.2f}" if abs(value) < 100 else f"{value:.0f}"


def _mbit(bps: float | None) -> str:
    return "–" if bps is None else f"{bps / 1e6:g} Mbit/s"
