# SPDX-License-Identifier: Apache-2.0
"""`report.html` of a run: a self-contained page, except for the recording next to it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import replace_file
from sojourn.harness.report.filmstrip import moments, pictures
from sojourn.harness.report.grids import (
    Grid,
    bottleneck_text,
    far_table,
    harm_table,
    height_text,
    home_table,
    lab_table,
    layer_steps_table,
    loads_table,
    other_contenders_table,
    phase_table,
    pictures_of,
    quality_table,
    room_sound_table,
    room_table,
    sojourn_table,
    speech_table,
)
from sojourn.harness.report.headline import (
    CUT_OFFS,
    HOME_CUT_OFFS,
    Badge,
    VictimOutcome,
    harm_badge,
    home_outcomes,
    home_title,
    measurement,
    outcomes,
    sentence,
    sureness,
    title,
)
from sojourn.harness.report.html import render
from sojourn.harness.report.number_text import mbit, number
from sojourn.harness.report.palette import looks, who
from sojourn.harness.report.published_tables import published_table
from sojourn.harness.report.svg import Points, ccdf_plot
from sojourn.harness.report.timeline import timeline, watched
from sojourn.harness.store.loaded import judged, stored_object
from sojourn.harness.store.manifest import CRATE, MANIFEST, REPORT, SIGNATURE, Manifest, is_run, read_manifest
from sojourn.scoring.picture.judged import read_judged
from sojourn.scoring.schema.files import FILES, OPTIONS
from sojourn.scoring.schema.scores import OWN, Curve, Scores
from sojourn.scoring.sound.judged_speech import read_judged_speech
from sojourn.scoring.time_series import RunSeries, run_series

#: Prefixes of versions of which there are hundreds: a simulated run's bytes depend on all of them.
_MANY = ("guest ", "processor flags")
_FRAME_AXIS = "from the camera to the screen (ms)"
_SOJOURN_AXIS = "sojourn time in the router, without the path's delay (ms)"


class ReportError(CodedError):
    """A run has no scores that a report could show."""


def write_report(run: Path, scores: Scores | Mapping[str, Any], manifest: Manifest | None = None) -> Path:
    """Write `report.html` to the run and return its path.

    `manifest` replaces the run's own, which is used by default if it exists. An invalid run is
    shown as recorded, with its reasons and without harm.
    """
    replace_file(run / REPORT, page(run, scores, manifest).encode())
    return run / REPORT


def page(run: Path, scores: Scores | Mapping[str, Any], manifest: Manifest | None = None) -> str:
    """Return the report of a run, as `write_report` writes it."""
    scores = scores if isinstance(scores, Scores) else Scores.model_validate(scores)
    if manifest is None and is_run(run):
        manifest = read_manifest(run)
    if manifest:
        scores = judged(scores, manifest)
    return render("report.html.j2", _content(run, scores, manifest))


def _content(run: Path, scores: Scores, manifest: Manifest | None) -> dict[str, Any]:
    view = run_series(scores, run)
    lab = scores.lab
    status, reasons = status_of(scores, manifest)
    screen = stored_object(run / "screen.json")
    offset = screen.get("start", scores.t0) - scores.t0
    probes = [(name, _probe_curves(curves)) for name, curves in view.ccdfs]
    all_probes = [points for _, curves in probes for *_, points in curves]
    waits = _plotted(scores, scores.sojourn_ccdf)
    frames = _plotted(scores, scores.frame_ccdf)
    service = str(stored_object(run / OPTIONS).get("service", ""))
    had = outcomes(scores) if status == "valid" else []
    judged = read_judged(run) if status == "valid" else None
    speech = read_judged_speech(run) if status == "valid" else None
    video = "screen.mp4" if (run / "screen.mp4").exists() else ""
    strip, poster, poster_at = _strip(view, run / video, offset) if video else ([], "", "")
    return {
        "title": f"{watched(scores, run)}: {_harm_in_words(scores, had, status)}",
        "subtitle": f"{lab.get('name') or 'lab'}: {bottleneck_text(lab)}; run {manifest.run if manifest else run.name}",
        "status": status,
        "reasons": reasons,
        "measurement": measurement(status),
        "outcomes": _outcomes(scores, had, service),
        "sure": sureness(1, scores.baseline.seconds if scores.baseline else None) if had else "No contender competed.",
        "cut_offs": (HOME_CUT_OFFS if scores.home else CUT_OFFS) if had else "",
        "harm": harm_table(scores),
        "published": published_table(scores, service),
        "phases": phase_table(scores),
        "quality": Grid("") if judged is None else quality_table(judged, scores),
        "speech": Grid("") if speech is None else speech_table(speech, scores),
        "timeline_svg": Markup(timeline(view)),
        "video": video,
        "sound": "sound.flac" if video and scores.sound_begins is not None and (run / "sound.flac").exists() else "",
        "sound_offset": f"{scores.sound_begins or 0:.3f}",
        "video_offset": f"{offset:.3f}",
        "poster": poster,
        "poster_at": poster_at,
        "strip": strip,
        "ccdfs": [
            {
                "name": name,
                "key": _key(curves),
                "svg": Markup(
                    ccdf_plot(curves, f"CCDF of the probe's round-trip time{name and f' ({name})'}", others=all_probes)
                ),
            }
            for name, curves in probes
            if curves
        ],
        "other_contenders": other_contenders_table(scores),
        "far": far_table(scores),
        "home": home_table(scores),
        "room": room_table(scores),
        "room_sound": room_sound_table(scores),
        "layer_steps": layer_steps_table(scores),
        "loads": loads_table(scores),
        "frames_svg": Markup(ccdf_plot(frames, "CCDF of the frames' latency", axis=_FRAME_AXIS)),
        "frames_key": _key(frames),
        "sojourn": sojourn_table(scores),
        "sojourn_svg": Markup(ccdf_plot(waits, "CCDF of the packets' sojourn time", axis=_SOJOURN_AXIS)),
        "sojourn_key": _key(waits),
        "checks": _checks(scores),
        "details": _details(run, scores, manifest),
        "files": _raw_files(run, manifest),
        "command": shlex.join(manifest.command_line) if manifest else "",
    }


def _harm_in_words(scores: Scores, had: Sequence[VictimOutcome], status: str) -> str:
    if status != "valid":
        return "no harm reported"
    return f"a home, {home_title(scores)}" if scores.home else title(had)


def _outcomes(scores: Scores, had: Sequence[VictimOutcome], service: str) -> list[tuple[Badge, str]]:
    """Return badge and sentence of every contender; of a home, of every member."""
    if had and scores.home:
        return [(badge, words) for _, badge, words in home_outcomes(scores)]
    return [(harm_badge(outcome), sentence(outcome, service)) for outcome in had]


def _strip(view: RunSeries, video: Path, offset: float) -> tuple[list[dict[str, Any]], str, str]:
    """Return the pictures of the telling moments with their words, the poster of the worst one, and when that was."""
    chosen, shown = moments(view), pictures_of(view.parties)
    worst = max(range(len(chosen)), key=lambda n: chosen[n].weight, default=0)
    drawn = pictures(video, [moment.t - offset for moment in chosen], worst)
    if not drawn:
        return [], "", ""
    strip = [
        {
            "t": f"{moment.t:.1f}",
            "phase": _phase_at(view, moment.t),
            "height": next((height_text(it, shown) for start, end, it in view.quality if start <= moment.t < end), ""),
            "words": moment.words,
            "worst": n == worst and moment.words != "",
            "picture": picture,
        }
        for n, (moment, picture) in enumerate(zip(chosen, drawn[:-1], strict=True))
    ]
    at = f"Picture: {strip[worst]['t']} s, {strip[worst]['phase']}"
    return strip, drawn[-1], at + (f", {chosen[worst].words}" if chosen[worst].words else "")


def _phase_at(view: RunSeries, t: float) -> str:
    return next((phase.name for phase in view.phases if phase.start <= t < phase.end), "between phases")


def _probe_curves(curves: Sequence[tuple[str, str | None, Points]]) -> list[tuple[str, str, Points]]:
    """Return the curves of a probe for `ccdf_plot`."""
    shown = [(name, points) for name, _, points in curves if points]
    kinds = looks([name for name, _ in shown])
    return [(name, kind, points) for (name, points), kind in zip(shown, kinds, strict=True)]


def _key(curves: Sequence[tuple[str, str, Points]]) -> list[tuple[str, str]]:
    """Return name and css classes of every curve."""
    return [(name, kind) for name, kind, _ in curves]


def _plotted(scores: Scores, curves: Sequence[Curve]) -> list[tuple[str, str, Points]]:
    """Return the curves of contender phases and of all solo phases together, for `ccdf_plot`."""
    contended = {phase.name for phase in scores.phases if phase.contender} | {"solo"}
    named = {curve.name: curve for curve in curves}  # of a single solo phase and the baseline, keep the baseline
    shown = [curve for name, curve in named.items() if name.split()[0] in contended and curve.ms]

    two_queues = any(curve.name.removesuffix(OWN).endswith(" L") for curve in shown)

    def kind(name: str) -> str:
        """Return the look: the phase's; of two queues by their dashes; the queue's own report pale."""
        packets = name.removesuffix(OWN)
        queue = "" if not two_queues else " dash-4" if packets.endswith(" L") else " solid"
        return who(name.split()[0]) + queue + (" faint" if name.endswith(OWN) else "")

    def words(name: str) -> str:
        """Return the name: without the queue if there is one only."""
        packets = name.removesuffix(OWN)
        own = ", as the qdisc reports" if name.endswith(OWN) else ""
        return (packets if two_queues else packets.removesuffix(" C")) + own

    return [(words(c.name), kind(c.name), list(zip(c.ms, c.percent, strict=True))) for c in shown]


def _raw_files(run: Path, manifest: Manifest | None) -> list[tuple[str, str]]:
    """Return the files of the run that the page was made from, with what they hold."""
    derived = {MANIFEST, SIGNATURE, CRATE, REPORT}
    there = [(name, file.text) for name, file in FILES.items() if name not in derived and (run / name).exists()]
    return [*([(MANIFEST, FILES[MANIFEST].text)] if manifest else []), *there]


def _checks(scores: Scores) -> dict[str, Any]:
    """Return the gates as rows, and whether all passed, in words."""
    gates = scores.validity.gates
    failed = sum(not gate.ok for gate in gates)
    return {
        "rows": [
            (("✓ " if gate.ok else "✗ ") + gate.name, f"{gate.measured} (required: {gate.limit})") for gate in gates
        ],
        "failed": failed,
        "words": f"{failed} of {len(gates)} checks failed" if failed else f"All {len(gates)} checks passed",
    }


def status_of(scores: Scores, manifest: Manifest | None) -> tuple[str, list[str]]:
    """Return valid, invalid or interrupted, and the reasons; `scores` as returned by `judged`."""
    reasons = scores.validity.reasons
    if manifest and manifest.status == "interrupted":
        return "interrupted", reasons
    return ("invalid", reasons) if reasons else ("valid", [])


def _details(run: Path, scores: Scores, manifest: Manifest | None) -> list[dict[str, Any]]:
    lab = scores.lab
    path = [
        ("queue, down / up", f"{lab.get('qdisc_down')} / {lab.get('qdisc_up')}"),
        ("rate, down / up", " / ".join(mbit(lab.get(f"rate_{way}_bps")) for way in ("down", "up"))),
        ("round-trip time of the path", f"{number(lab.get('rtt_ms'))} ms"),
    ]
    setup = [
        ("lab", lab.get("name") or "–"),
        *([] if "box" in lab else path),
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
                "seconds in which picture and player show different heights",
                f"{len(differing)} of {len(scores.blind.heights)}",
            ),
        ]
    setup += lab_table(scores)
    contended = [phase for phase in scores.phases if phase.contender]
    for flow in scores.flows:
        steady = flow.window_goodput_mbps
        rate = "" if steady is None else f"window goodput {number(steady)} Mbit/s, "
        ecn = f"ECT(1) {flow.ect1}, ECT(0) {flow.ect0}, Not-ECT {flow.not_ect}, CE {flow.ce}"
        ecn += f", SCE {flow.sce}, echoed {flow.esce}" if flow.sce or flow.esce else ""
        text = f"{rate}{flow.data_packets} data packets: {ecn}; resent {flow.resent}"
        which = f" ({flow.contender}{', up' if flow.up else ''})" if len(scores.flows) > len(contended) else ""
        setup.append((f"contender in {flow.phase}{which}", text))
    if manifest:
        setup.append(("seed", str(manifest.seed)))
        setup += [(f"drawn {name}", value) for name, value in manifest.drawn.items()]
    versions = sorted(versions_of(run, manifest).items())
    tables = [
        {"title": "Set-up", "rows": setup},
        {"title": "Versions", "rows": [row for row in versions if not row[0].startswith(_MANY)]},
        {"title": "Guest and processor", "rows": [row for row in versions if row[0].startswith(_MANY)]},
    ]
    return [table for table in tables if table["rows"]]


def versions_of(run: Path, manifest: Manifest | None) -> dict[str, str]:
    """Return all versions of a run, including Sojourn's commit."""
    versions = {name: str(version) for name, version in stored_object(run / "lab.json").get("versions", {}).items()}
    if manifest:
        versions |= manifest.versions
        if manifest.git:
            dirty = " with changes" if manifest.git.dirty else ""
            versions["Sojourn"] = f"commit {manifest.git.commit[:12]}{dirty}"
    return versions
