# SPDX-License-Identifier: Apache-2.0
"""Tables of scores, the same on a page and on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from sojourn.bottleneck.qdiscs import QdiscError, parse_qdisc
from sojourn.harness.report.number_text import infinite_text, mbit, number, percent, two_decimals, value_text
from sojourn.scoring.long_table import ALONE, label_of
from sojourn.scoring.picture.judged import by_phase
from sojourn.scoring.recovery import REGAINED_S, unseen_s
from sojourn.scoring.schema.metric import unit_of
from sojourn.scoring.schema.scores import HARMED, Harm, PartyScores, PhaseScores, Scores, rate_steps
from sojourn.scoring.sound import judged_speech
from sojourn.scoring.statistics.harm import SEVERE, SOME, Severity, severity
from sojourn.scoring.statistics.numbers import NOT_REACHED
from sojourn.scoring.statistics.relevance import DEFAULT, Relevance
from sojourn.scoring.time_series import probe_names
from sojourn.traffic.load import CALL, GAME, VIDEO, WEB
from sojourn.traffic.probes import PROBES

if TYPE_CHECKING:
    import polars as pl


#: A baseline shorter than this, s, is noted next to the harm.
_LONG_ALONE_S = 60.0
#: Decimals of a picture's quality.
_QUALITY_DECIMALS = {"ssim": 3, "vmaf": 1}
DEMAND_MET = "demand met"
"""Shown instead of the harm to goodput if the path did not limit the victim (`sojourn.scoring.transport.demand`)."""
PRIMARY = ", primary"
"""Suffix of the victim's primary metric."""


@dataclass
class Row:
    """A row of a table; `hurt` and `some` hold the cells with severe and some harm, cell 0 is the row's head.

    `alike`: nothing differs in it; pages fold such rows. Pages have a heading above the first row of a `group`.
    """

    cells: list[str]
    contended: bool = False
    hurt: set[int] = field(default_factory=set)
    some: set[int] = field(default_factory=set)
    alike: bool = False
    group: str = ""

    @property
    def primary(self) -> bool:
        """Whether it is the primary metric's."""
        return self.cells[0].endswith(PRIMARY)

    def mark(self, word: Severity, *cells: int) -> None:
        """Mark cells as those of a harm of this severity."""
        {"none": set[int](), "some": self.some, "severe": self.hurt}[word].update(cells)


@dataclass
class Grid:
    """A table with a head; `contended` are the columns of phases in which a contender competes."""

    caption: str
    heads: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    contended: set[int] = field(default_factory=set)


def queue(lab: Mapping[str, Any]) -> str:
    """Return the downward queue of a run's lab, or the name of the black box."""
    return str(lab.get("box") or lab.get("qdisc_down"))


def rate_and_queue(lab: Mapping[str, Any]) -> str:
    """Return rate, its steps, and queue in the downward direction as text; for a black box, its stated rate, if any."""
    rate = lab.get("rate_down_bps")
    steps = "".join(f", {bps / 1e6:g} from {t:g} s on" for t, bps in rate_steps(lab))
    return queue(lab) if "box" in lab and not rate else f"{(rate or 0) / 1e6:g} Mbit/s{steps}, {queue(lab)}"


def queue_and_rate(lab: Mapping[str, Any]) -> str:
    """Return queue and rate, for a title: `dualpi2, 10 Mbit/s`; for a black box without a stated rate, its name."""
    rate = lab.get("rate_down_bps")
    return queue(lab) + (f", {rate / 1e6:g} Mbit/s" if rate else "")


def bottleneck_text(lab: Mapping[str, Any]) -> str:
    """Return rate, queue and round-trip time of a run as text."""
    return rate_and_queue(lab) + ("" if "box" in lab else f", RTT {lab.get('rtt_ms') or 0:g} ms")


def labelled(label: str, *runs: Scores) -> str:
    """Return a label with its probe named as in all these runs: `(C queue)` in dualpi2, no name for a single probe."""
    labels = {_labelled(label, scores) for scores in runs}
    return labels.pop() if len(labels) == 1 else label


def _labelled(label: str, scores: Scores) -> str:
    for probe, name in probe_names(scores):
        label = label.replace(f" ({probe.name})", f" ({name})" if name else "")
    return label


def harm_table(scores: Scores) -> Grid:
    short = alone_for(scores.baseline.seconds if scores.baseline else None).removesuffix(", ")
    grid = Grid(
        "Value with each contender, and harm: 0 none, 1 the worst, below 0 better than alone; amber from "
        f"{SOME:g}, red from {SEVERE:g}, of delays only if they rise by at least {DEFAULT.delay:g} ms. Demand met: the "
        "path did not limit the victim. Alone: the baseline, that is the solo phases without recovery time"
        + (f" ({short}). Use at least {_LONG_ALONE_S:g} s for a reliable baseline." if short else ".")
    )
    names = list(dict.fromkeys(harm.phase for harm in scores.harm))
    grid.heads = [
        "",
        f"alone ({short})" if short else "alone",
        *(head for name in names for head in (f"with {name}", "harm")),
    ]
    by_key = {(harm.metric, harm.phase): harm for harm in scores.harm}
    phases = {phase.name: phase for phase in scores.phases}
    for metric in HARMED:
        cells = [labelled(label_of(metric), scores) + (PRIMARY if metric == scores.primary else "")]
        row = Row(cells)
        # A phase may have no figure of it: with other loads than downloads, there is no fair share.
        cells += [number(next((harm.solo for harm in scores.harm if harm.metric == metric), None))]
        for name in names:
            harm = by_key.get((metric, name))
            if harm is None:
                cells += ["–", "–"]
                continue
            shown = DEMAND_MET if harm.demand_met else two_decimals(harm.harm)
            cells += [value_text(metric, partial(_of_phase, phases[name], harm)), shown]
            word = relevant_severity(metric, harm.harm, harm.solo, harm.value)
            row.mark(word, len(cells) - 2, len(cells) - 1)
        if any((metric, name) in by_key for name in names):
            row.alike = not row.primary and set(cells[3::2]) <= {"0.00", DEMAND_MET}
            grid.rows.append(row)
    grid.rows.sort(key=lambda row: PRIMARY not in row.cells[0])
    return grid


def relevant_severity(
    metric: str, harm: float, solo: float | None, value: float | None, relevance: Relevance = DEFAULT
) -> Severity:
    """Return the severity of a harm: `none` for a delay that rises by less than the least relevant difference."""
    if unit_of(metric) == "ms" and solo is not None and value is not None and value - solo < relevance.delay:
        return "none"
    return severity(harm)


def _of_phase(phase: PhaseScores | None, harm: Harm, metric: str) -> float | None:
    """Return a metric of a harm's phase; for the harmed metric, the harm's own value."""
    value: float | None = harm.value if metric == harm.metric else getattr(phase, metric, None)
    return value


def alone_for(seconds: float | None) -> str:
    """Return a short baseline's length for a table's caption: `8 s only, `."""
    return f"{seconds:.0f} s only, " if seconds is not None and seconds < _LONG_ALONE_S else ""


def _of(phase: PhaseScores, metric: str) -> str:
    return value_text(metric, lambda name: getattr(phase, name))


_PhaseRow = tuple[str, str, Callable[[PhaseScores], str]]


def height_text(lines: int | None, pictures: int = 1) -> str:
    """Return the height of a picture, or the mean of several; none where it was taken away."""
    return "–" if lines is None else "none" if not lines else f"{lines}p" if pictures == 1 else f"{lines} lines"


def pictures_of(parties: Collection[Any]) -> int:
    """Return of how many pictures the heights of a run are the mean: in a room, those of all `parties` but the client.

    The mean of several is no rung of a ladder.
    """
    return max(len(parties) - 1, 1)


def mean_of(pictures: int) -> str:
    """Return what a height of several pictures is, empty for a single one."""
    return f"mean of {pictures} pictures" if pictures > 1 else ""


#: The rows of heights, and their fields.
_HEIGHTS = {"mostly": "dominant_height", "lowest": "lowest_height"}


def _height(field: str, phase: PhaseScores, pictures: int = 1) -> str:
    return height_text(getattr(phase, field), pictures)


#: Group, name and figure of a phase.
_PHASE_ROWS: list[_PhaseRow] = [
    ("", "duration s", lambda p: number(p.seconds)),
    ("Goodput", "victim Mbit/s", lambda p: number(p.victim_mbps)),
    ("Goodput", "contender Mbit/s", lambda p: number(p.contender_mbps) if p.contender else "–"),
    ("Goodput", "contender's uploads Mbit/s", lambda p: number(p.contender_up_mbps) if p.contender else "–"),
    ("Goodput", "goodput recovers after s", lambda p: number(p.goodput_recovery_s, NOT_REACHED)),
    ("Game", "ticks later than 16 ms", lambda p: _later(p.tick_in_16ms)),
    ("Game", "ticks later than 50 ms", lambda p: _later(p.tick_in_50ms)),
    ("Game", "ticks later than 100 ms", lambda p: _later(p.tick_in_100ms)),
    ("Game", "ticks lost", lambda p: _percent(p.tick_loss)),
    ("Game", "delay of ticks (down) P50 ms", lambda p: _of(p, "tick_p50_ms")),
    ("Game", "delay of ticks (down) P99 ms", lambda p: _of(p, "tick_p99_ms")),
    ("Game", "jitter of ticks ms", lambda p: number(p.tick_jitter_ms)),
    ("Game", "inputs later than 50 ms", lambda p: _later(p.input_in_50ms)),
    ("Game", "inputs lost", lambda p: _percent(p.input_loss)),
    ("Game", "delay of inputs (up) P50 ms", lambda p: _of(p, "input_p50_ms")),
    ("Game", "delay of inputs (up) P99 ms", lambda p: _of(p, "input_p99_ms")),
    ("Game", "jitter of inputs ms", lambda p: number(p.input_jitter_ms)),
    *(("Picture", name, partial(_height, field)) for name, field in _HEIGHTS.items()),
    ("Picture", "drops of resolution", lambda p: number(p.drops)),
    ("Picture", "frames/s", lambda p: number(p.fps)),
    ("Picture", "stalls", lambda p: number(p.stalls)),
    ("Picture", "stalled s", lambda p: number(p.stall_s)),
    ("Picture", "freezes", lambda p: number(p.freezes)),
    ("Picture", "picture recovers after s", lambda p: number(p.recovery_s, NOT_REACHED)),
    ("Picture", "behind the broadcast s", lambda p: number(p.live_latency_s)),
    ("Picture", "change of that s", lambda p: number(p.live_drift_s)),
    ("Picture", "speed of playback", lambda p: number(p.playback_rate)),
    ("Picture", "catching up", lambda p: _percent(p.catch_up_share)),
    ("Picture", "camera to screen P50 ms", lambda p: _of(p, "frame_p50_ms")),
    ("Picture", "camera to screen P99 ms", lambda p: _of(p, "frame_p99_ms")),
    ("Picture", "never shown", lambda p: _percent(p.frame_loss)),
    ("Pages", "opened", lambda p: number(p.page_loads)),
    ("Pages", "not loaded in time", lambda p: number(p.page_loads_unfinished)),
    ("Pages", "FCP P50 ms", lambda p: _of(p, "fcp_p50_ms")),
    ("Pages", "FCP P95 ms", lambda p: _of(p, "fcp_p95_ms")),
    ("Pages", "LCP P50 ms", lambda p: _of(p, "lcp_p50_ms")),
    ("Pages", "LCP P95 ms", lambda p: _of(p, "lcp_p95_ms")),
    ("Pages", "load P50 ms", lambda p: _of(p, "load_p50_ms")),
    ("Pages", "load P95 ms", lambda p: _of(p, "load_p95_ms")),
    ("Probes", "RTT (Not-ECT) P50 ms", lambda p: _of(p, "rtt_p50_ms")),
    ("Probes", "RTT (Not-ECT) P99 ms", lambda p: _of(p, "rtt_p99_ms")),
    ("Probes", "RTT (Not-ECT) max ms", lambda p: number(p.rtt_max_ms)),
    ("Probes", "probes lost (Not-ECT)", lambda p: _percent(p.probe_loss)),
    ("Probes", "RTT (ECT(1)) P50 ms", lambda p: _of(p, "ect1_rtt_p50_ms")),
    ("Probes", "RTT (ECT(1)) P99 ms", lambda p: _of(p, "ect1_rtt_p99_ms")),
    ("Probes", "RTT (ECT(1)) max ms", lambda p: number(p.ect1_rtt_max_ms)),
    ("Probes", "probes lost (ECT(1))", lambda p: _percent(p.ect1_probe_loss)),
    ("Sound", "mouth to ear P50 ms", lambda p: _of(p, "ear_p50_ms")),
    ("Sound", "mouth to ear P95 ms", lambda p: _of(p, "ear_p95_ms")),
    ("Sound", "never heard", lambda p: _percent(p.ear_loss)),
    ("Sound", "gaps", lambda p: _percent(p.ear_gap_share)),
    ("Sound", "heard twice", lambda p: _percent(p.ear_repeated_share)),
    ("Sound", "in NetEq's buffer ms", lambda p: number(p.neteq_buffer_ms)),
    ("Sound", "NetEq: concealed", lambda p: _percent(p.neteq_concealed_share)),
    ("Sound", "NetEq: inserted", lambda p: _percent(p.neteq_stretched_share)),
    ("Sound", "NetEq: removed", lambda p: _percent(p.neteq_shortened_share)),
    ("Sound", "lip sync P50 ms", lambda p: number(p.lip_sync_p50_ms)),
    ("Sound", "in sync", lambda p: _percent(p.lip_sync_in_limits)),
    ("Sound", "R (E-model)", lambda p: number(p.r_factor)),
    ("Sound", "R (wideband)", lambda p: number(p.r_factor_wb)),
    ("ECN of the call", "RTP sent as ECT(1)", lambda p: number(p.media_sent_ect1)),
    ("ECN of the call", "RTP received as ECT(1)", lambda p: number(p.media_received_ect1)),
    ("ECN of the call", "RTP received as CE", lambda p: number(p.media_received_ce)),
    ("ECN of the call", "ECT(1) bleached", lambda p: number(p.media_bleached)),
    ("ECN of the call", "CCFB received", lambda p: number(p.ccfb_received)),
    ("New connections", "responsiveness RPM", lambda p: _of(p, "foreign_rpm")),
    ("New connections", "TCP ms", lambda p: _of(p, "foreign_tcp_ms")),
    ("New connections", "TLS ms", lambda p: _of(p, "foreign_tls_ms")),
    ("New connections", "HTTP ms", lambda p: _of(p, "foreign_http_ms")),
    ("New connections", "answered", lambda p: _percent(p.foreign_answered_share)),
]


_OTHER_ROWS: list[_PhaseRow] = [
    ("", "web flows", lambda p: number(p.web_flows)),
    ("", "unfinished", lambda p: number(p.web_unfinished)),
    ("", "FCT P50 s", lambda p: _of(p, "web_fct_p50_s")),
    ("", "FCT P95 s", lambda p: _of(p, "web_fct_p95_s")),
    ("", "second video, mostly", lambda p: height_text(p.second_height)),
    ("", "second video stalled s", lambda p: number(p.second_stall_s)),
    ("", "call down: lost", lambda p: _percent(p.call_down_loss)),
    ("", "call down: P99 ms", lambda p: _of(p, "call_down_p99_ms")),
    ("", "call up: lost", lambda p: _percent(p.call_up_loss)),
    ("", "call up: P99 ms", lambda p: _of(p, "call_up_p99_ms")),
    ("", "game: ticks later than 16 ms", lambda p: _later(p.game_in_16ms)),
    ("", "game: ticks later than 50 ms", lambda p: _later(p.game_in_50ms)),
    ("", "game: ticks later than 100 ms", lambda p: _later(p.game_in_100ms)),
    ("", "game down: lost", lambda p: _percent(p.game_down_loss)),
    ("", "game down: P99 ms", lambda p: _of(p, "game_down_p99_ms")),
    ("", "game up: lost", lambda p: _percent(p.game_up_loss)),
    ("", "game up: P99 ms", lambda p: _of(p, "game_up_p99_ms")),
    ("", "Responsiveness Test RPM", lambda p: _of(p, "test_rpm")),
    ("", "foreign RPM", lambda p: _of(p, "test_foreign_rpm")),
    ("", "self RPM", lambda p: _of(p, "test_self_rpm")),
]


def _later(in_time: float | None) -> str:
    """Return the share of packets later than a deadline, lost ones included, from the share in time."""
    return _percent(None if in_time is None else 1 - in_time)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.2%}"


def phase_table(scores: Scores) -> Grid:
    pictures, every = pictures_of(scores.parties), _PHASE_ROWS
    if mean := mean_of(pictures):
        every = [
            (group, f"{name}, {mean}", partial(_height, _HEIGHTS[name], pictures=pictures))
            if name in _HEIGHTS
            else (group, name, cell)
            for group, name, cell in _PHASE_ROWS
        ]
    return _phase_table("Measured values per phase.", scores, scores.phases, every)


def far_table(scores: Scores) -> Grid:
    """Return what the other end of a call saw; no rows without one."""
    seen = "The client as party 2 sees it" if scores.parties else "The call as seen at the other end"
    return _phase_table(f"{seen} (upward direction).", scores, scores.far)


MEMBERS = {"victim": "victim", WEB: "web user", CALL: "call", GAME: "game", VIDEO: "second video"}
"""Names of a home's members in tables and sentences."""


def home_table(scores: Scores) -> Grid:
    """Return what bulk flows do to every member of a home; no rows for any other run."""
    grid = Grid(
        "The home: the update's harm to each of its members, by itself and together with all others. Alone: without "
        "the update; the victim plays throughout."
    )
    updates = dict.fromkeys(it.update for it in scores.home)
    grid.heads = ["", "figure", "alone", "with the update", "harm", "with all", "harm"]
    phases = {phase.name: phase for phase in scores.phases}
    for it in scores.home:
        row = Row([MEMBERS[it.member], label_of(it.metric), number(it.alone)])
        for phase, value, harmed in (
            (it.update_phase, it.with_update, it.update_harm),
            (it.all_phase, it.with_all, it.all_harm),
        ):
            shown = _of(phases[phase], it.metric) if phase else "–"
            row.cells += [shown, "–" if harmed is None else two_decimals(harmed)]
            word = "none" if harmed is None else relevant_severity(it.metric, harmed, it.alone, value)
            row.mark(word, len(row.cells) - 2, len(row.cells) - 1)
        row.group = f"update: {it.update}" if len(updates) > 1 else ""
        grid.rows.append(row)
    return grid


_PARTY_COLUMNS: list[tuple[str, Callable[[PhaseScores], str]]] = [
    ("phase", lambda p: p.name),
    ("Mbit/s", lambda p: number(p.victim_mbps)),
    ("mostly", lambda p: height_text(p.dominant_height)),
    ("lowest", lambda p: height_text(p.lowest_height)),
    ("mean lines", lambda p: number(p.mean_height)),
    ("drops", lambda p: number(p.drops)),
    ("frames/s", lambda p: number(p.fps)),
    ("freezes", lambda p: number(p.freezes)),
    ("frozen s", lambda p: number(p.freeze_s)),
    ("camera to screen P50 ms", lambda p: _of(p, "frame_p50_ms")),
    ("P99 of those shown ms", lambda p: number(p.frame_shown_p99_ms)),
    ("within 0.4 s", lambda p: _percent(p.frames_in_time)),
    ("never shown", lambda p: _percent(p.frame_loss)),
]
_PARTY_SOUND: list[tuple[str, Callable[[PhaseScores], str]]] = [
    ("phase", lambda p: p.name),
    ("mouth to ear P50 ms", lambda p: _of(p, "ear_p50_ms")),
    ("P95 of that heard ms", lambda p: number(p.ear_heard_p95_ms)),
    ("within 0.4 s", lambda p: _percent(p.ear_in_time)),
    ("never heard", lambda p: _percent(p.ear_loss)),
    ("gaps", lambda p: _percent(p.ear_gap_share)),
    ("lip sync P50 ms", lambda p: number(p.lip_sync_p50_ms)),
    ("in sync", lambda p: _percent(p.lip_sync_in_limits)),
    ("R (E-model)", lambda p: number(p.r_factor)),
]


def party_name(party: int) -> str:
    """Return the name of a room's party in tables and charts."""
    return "1 (client, seen at party 2)" if party == 1 else str(party)


def loads_table(scores: Scores) -> Grid:
    """Return one row per load of a web page; no rows for any other victim."""
    grid = Grid(
        "Every load, in order: first byte (TTFB), First and Largest Contentful Paint (FCP, LCP), DOMContentLoaded "
        "(DCL) and load event, in ms from the start of the navigation, as the browser reports them. Cut off: the phase "
        "ended before the page had loaded, after the time in brackets."
    )
    grid.heads = ["start", "phase", "page", "requests", "KB", *(head for head, _ in _MILESTONES), "load ms"]
    contended = {phase.name for phase in scores.phases if phase.contender}
    for load in scores.loads:
        loaded = number(load.load_ms) if load.finished else f"cut off ({load.had_ms:.0f})"
        cells = [
            f"{load.t:.1f} s", load.phase or "between phases", f"{load.page}: {load.url.removeprefix('https://')}",
            number(load.requests), number(load.bytes / 1024),
            *(number(getattr(load, f"{name}_ms")) for _, name in _MILESTONES), load.failed or loaded,
        ]  # fmt: skip
        # Cell 0 is the row's head.
        row = Row(cells, load.phase in contended)
        row.hurt = set() if load.finished else {len(cells) - 1}
        grid.rows.append(row)
    return grid


_MILESTONES = ("TTFB ms", "ttfb"), ("FCP ms", "fcp"), ("LCP ms", "lcp"), ("DCL ms", "dcl")


def room_table(scores: Scores) -> Grid:
    """Return one row per party of a room and phase; no rows for any other victim."""
    grid = Grid(
        "The picture of every party: the client's as party 2 saw it, the others on the client's screen. First picture: "
        "from the moment when the client joins. Mbit/s: the RTP payload received of the party's picture. "
        "Harm: that to the frames within 0.4 s, amber from "
        f"{SOME:g}, red from {SEVERE:g}."
    )
    harmed = any(one.harm for one in scores.parties)
    grid.heads = ["party", "first picture s", *(head for head, _ in _PARTY_COLUMNS), *["harm"] * harmed]
    for one in scores.parties:
        harms = {harm.phase: harm.harm for harm in one.harm if harm.metric == scores.primary}
        for number_of_phase, phase in enumerate(one.phases):
            joined = number(one.first_picture_s) if not number_of_phase else ""
            name = "" if number_of_phase else party_name(one.party)
            row = Row([name, joined, *(cell(phase) for _, cell in _PARTY_COLUMNS)], bool(phase.contender))
            if harmed:
                harm = harms.get(phase.name)
                row.mark(severity(harm or 0.0), len(row.cells))
                row.cells.append("–" if harm is None else two_decimals(harm))
            grid.rows.append(row)
    return grid


def room_sound_table(scores: Scores) -> Grid:
    """Return one row per party of a room that speaks and phase; no rows without sound."""
    grid = Grid(
        "The sound of the parties that speak: the client's at party 2, that of party 2 at the client. Active speaker: "
        "share of the time in which the room showed the party as one."
    )
    grid.heads = ["party", *(head for head, _ in _PARTY_SOUND), "active speaker"]
    for one in scores.parties:
        heard = [phase for phase in one.phases if phase.ear_gap_share is not None]
        for number_of_phase, phase in enumerate(heard):
            name = "" if number_of_phase else party_name(one.party)
            cells = [name, *(cell(phase) for _, cell in _PARTY_SOUND), _percent(_spoken(one, phase))]
            grid.rows.append(Row(cells, bool(phase.contender)))
    return grid


def _spoken(one: PartyScores, phase: PhaseScores) -> float:
    """Return the share of a phase in which a party was shown as an active speaker."""
    inside = (min(end, phase.end) - max(start, phase.start) for start, end in one.speaks)
    return sum(seconds for seconds in inside if seconds > 0) / (phase.end - phase.start)


def layer_steps_table(scores: Scores) -> Grid:
    """Return how every party's picture followed the steps of the bottleneck's rate; no rows without steps."""
    grid = Grid(
        "Layers after every step of the bottleneck's rate, until the next: the time until a picture first lost lines "
        "or a temporal layer, the lowest picture, and the frame rate of the worst second. Recovery after a dip: from "
        "the step up until the picture had the height and frame rate that it had before the dip, and kept both for "
        f"{REGAINED_S:g} s without a stall; > where it took longer than the run shows."
    )
    grid.heads = ["step", "party", "first drop after s", "lowest", "fewest frames/s", "before the dip"]
    grid.heads.append("recovery after the dip s")
    steps = sorted(((step, one.party) for one in scores.parties for step in one.steps), key=lambda it: (it[0].t, it[1]))
    for step, party in steps:
        to = f"{step.t:.1f} s: {step.direction} {step.mbps:g} Mbit/s"
        lowest, before = map(height_text, (step.lowest_height, step.before_height))
        before += "" if step.before_fps is None else f", {step.before_fps:.0f}/s"
        cells = [to, party_name(party), number(step.first_drop_s), lowest, number(step.lowest_fps), before]
        grid.rows.append(Row([*cells, number(step.recovery_s, f"> {unseen_s(step.seconds):.1f}")]))
    return grid


def other_contenders_table(scores: Scores) -> Grid:
    """Return the results of contenders other than bulk flows; no rows without them."""
    own = [p for p in scores.phases if any(cell(p) != "–" for *_, cell in _OTHER_ROWS)]
    caption = (
        "Contenders other than bulk flows. FCT: flow completion time of the web flows that began in the phase; an "
        "unfinished flow counts as longer than the time it had."
    )
    return _phase_table(caption, scores, own, _OTHER_ROWS)


def _phase_table(
    caption: str, scores: Scores, phases: Sequence[PhaseScores], every: Sequence[_PhaseRow] = _PHASE_ROWS
) -> Grid:
    """Return one column per phase; rows without values are omitted. Phases are few, figures many."""
    rows = [Row([labelled(head, scores), *map(cell, phases)], group=group) for group, head, cell in every]
    void = "" if scores.validity.valid else " INVALID: for diagnosis only, not a result."
    return Grid(
        caption + void,
        ["", *(phase.name for phase in phases)],
        [row for row in rows if set(row.cells[1:]) - {"–"}],
        {n for n, phase in enumerate(phases, 1) if phase.contender},
    )


def sojourn_table(scores: Scores) -> Grid:
    """Return sojourn times, losses and marks of every sender's packets downwards; no rows without both captures."""
    grid = Grid("Downwards through the router, packet by packet: every packet is matched between both captures.")
    counted = ["packets", "lost", "marked CE", "reordered", "ambiguous", "negative"]
    grid.heads = ["phase", "packets of", "queue", *counted, "P50 ms", "P90", "P99", "max"]
    contended = {phase.name for phase in scores.phases if phase.contender}
    both = {f"{probe.prefix}probe": f"probe ({probe.name})" for probe in PROBES}
    probes = both if len(probe_names(scores)) > 1 else {}
    for row in scores.sojourn:
        of = {"qdisc": "the qdisc's report", **probes}.get(row.of, row.of)
        counts = [number(row.packets), *(_share(part, row.packets) for part in (row.lost, row.marked))]
        negative = f"{row.negative}, to {number(row.least_ms)} ms" if row.negative else number(row.negative)
        counts += [number(row.late), number(row.alike), negative]
        gone = None if row.lost is None else row.lost / row.packets
        times = [infinite_text(gone) if ms == inf else number(ms) for ms in (row.p50_ms, row.p90_ms, row.p99_ms)]
        times.append(number(row.max_ms))
        grid.rows.append(Row([row.phase, of, row.queue, *counts, *times], row.phase in contended))
    return grid


def quality_table(judged: pl.DataFrame, scores: Scores) -> Grid:
    """Return the quality of the judged pictures alone and in every phase, with its harm; `judged` as in quality.csv."""
    rows = by_phase(judged, scores)
    names = [name for name in ("ssim", "vmaf") if any(getattr(row, f"{name}_mean") is not None for row in rows)]
    grid = Grid(
        "Pictures on the screen, each compared with the film's frame whose number it shows: SSIM of the luma (1: "
        "identical), VMAF (0 to 100); mean and 5th percentile. A picture that stands still counts once, so freezes and "
        "frames never shown do not lower the figures. Harm: the loss of the mean, as a share of the mean alone."
    )
    lost = {phase.name: phase.frame_loss for phase in [*scores.phases] if phase.frame_loss is not None}
    grid.heads = ["phase", "pictures", *(head for name in names for head in (name.upper(), "P5", "harm"))]
    grid.heads += ["never shown"] if lost else []
    for row in rows:
        shown = Row([row.phase, str(row.pictures)], bool(row.contender))
        for name in names:
            harmed = row.harm.get(f"{name}_mean")
            decimals = _QUALITY_DECIMALS[name]
            figures = (getattr(row, f"{name}_{what}") for what in ("mean", "p5"))
            shown.cells += ["–" if figure is None else f"{figure:.{decimals}f}" for figure in figures]
            shown.cells.append("–" if harmed is None else two_decimals(harmed))
            shown.mark(severity(harmed or 0.0), len(shown.cells) - 3, len(shown.cells) - 1)
        if lost:
            share = scores.baseline.frame_loss if row.phase == ALONE and scores.baseline else lost.get(row.phase)
            shown.cells.append("–" if share is None else percent(share))
        grid.rows.append(shown)
    return grid


def speech_table(judged: pl.DataFrame, scores: Scores) -> Grid:
    """Return the quality of the speech that both ends heard alone and in every phase; `judged` as in speech.csv."""
    grid = Grid(
        "Speech that each end heard, each segment of two sentences compared with what was spoken: MOS-LQO of ViSQOL's "
        "speech mode (1 to 5), mean and least; perfect: the mean of the same segments compared with themselves, which "
        "differs by what is said; lost: how much more that is, which is the figure to compare; median delay from mouth "
        "to ear. A segment that was never heard has MOS-LQO 1 and an infinite delay. Delay does not lower MOS-LQO."
    )
    grid.heads = ["phase", "listener", "segments", "never heard", "MOS-LQO", "least", "perfect", "lost", "delay ms"]
    for row in judged_speech.by_phase(judged, scores):
        figures = (row.mos_lqo_mean, row.mos_lqo_least, row.mos_lqo_spoken, row.mos_lqo_lost)
        cells = ["–" if figure is None else f"{figure:.2f}" for figure in figures]
        listener = "client" if row.listener == judged_speech.CLIENT else "other end"
        counts = [str(row.speech_segments), str(row.speech_unheard)]
        grid.rows.append(Row([row.phase, listener, *counts, *cells, number(row.delay_ms)], bool(row.contender)))
    return grid


def _share(part: int | None, whole: int) -> str:
    return number(part) if not part else f"{part} ({part / whole:.2%})"


def lab_table(scores: Scores) -> list[tuple[str, str]]:
    """Return what the lab itself adds to the measurement, as (name, text)."""
    rows, jitter, host = [], scores.jitter_ms, scores.host
    lab = scores.lab
    if version := lab.get("ip_version"):
        rows.append(("IP version", f"IPv{version}"))
    if steps := lab.get("rate_steps"):
        text = ", ".join(f"{step['rate_bps'] / 1e6:g} Mbit/s {step['direction']} at {step['t']:g} s" for step in steps)
        rows.append(("the bottleneck's rate", text))
    if "box" in lab:
        rows += _box_rows(lab)
    for way in ("down", "up"):
        qdisc, rate = lab.get(f"qdisc_{way}"), lab.get(f"rate_{way}_bps")
        with suppress(QdiscError):  # of a run by a version with other queues
            if qdisc and rate and (caution := parse_qdisc(qdisc).caution(rate)):
                rows.append((f"caution, queue {way}", caution))
    if lab.get("path_loss"):
        rows.append(("loss of the path, round trip", f"{lab['path_loss']:.2%}"))
    if lab.get("path_varies_ms"):
        rows.append(("delay variation of the path, round trip", f"up to {number(lab['path_varies_ms'])} ms"))
    if jitter:
        text = f"P50 {number(jitter.p50)}, P99 {number(jitter.p99)}, max {number(jitter.max)} ms"
        rows.append(("unshaped probe above the path's RTT", text))
    if host:
        used = f"mean {number(host.cpu_cores_mean)}, max {number(host.cpu_cores_max)} of {host.cores} cores"
        rows.append(("host", f"{used}; worst stall {number(host.stall_worst_ms)} ms"))
    return rows


def _box_rows(lab: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is known about a box: its stated and its observed properties."""
    keys = "rate_{}_bps", "most_{}_bps", "least_{}_ms"
    said, most, least = ([lab.get(key.format(way)) for way in ("down", "up")] for key in keys)
    rows = [("black box", "neither configured nor read; no probe bypasses its queue, and only the host is monitored")]
    if any(said):
        rows.append(("stated rate, down / up", " / ".join(map(mbit, said))))
    if any(most):
        rows.append(("maximum throughput in one second, down / up", " / ".join(map(mbit, most))))
    if None not in least:
        text = (
            f"{number(least[0])} ms down, {number(least[1])} ms up by both captures' clocks; sojourn times exclude it"
        )
        rows.append(("minimum time through it (the path's delay)", text))
    return rows
