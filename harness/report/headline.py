# SPDX-License-Identifier: Apache-2.0
"""The headline of runs: what happened to the viewer with each contender, primary metric first, then how reliable it is.

Every page, table and picture takes its sentence and its badges from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple

from sojourn.hardware.machine.messages import count_of
from sojourn.harness.report.grids import MEMBERS, alone_for, mean_of, pictures_of, relevant_severity
from sojourn.harness.report.number_text import interval, milliseconds, number, percent, value_text
from sojourn.scoring.schema.metric import unit_of
from sojourn.scoring.schema.scores import METRICS, HomeFigure, Scores
from sojourn.scoring.statistics.harm import PRIMARY, SEVERE, SOME, Severity, severity
from sojourn.scoring.statistics.relevance import DEFAULT, Relevance

if TYPE_CHECKING:
    from sojourn.scoring.statistics.intervals import Estimate
    from sojourn.scoring.statistics.summary import ExperimentSummary

#: Share of its frame rate alone that a video must lose before the headline mentions it.
_SLOWER = 0.05
#: Share of never-shown frames from which the headline mentions them.
_NEVER_SHOWN = 0.005
CUT_OFFS = f"Harm by the primary metric: none below {SOME:g}, some from {SOME:g}, severe from {SEVERE:g}."
"""The meaning of the badges' words."""
HOME_CUT_OFFS = (
    f"Harm of a member by its most harmed figure: none below {SOME:g}, some from {SOME:g}, severe from {SEVERE:g}."
)
"""The same for a home."""


_PICTURE, _SLOWER_PAGES = "a worse picture", "slower pages"
#: What harm outside the primary metric does, and the metrics that show it, the most telling ones first.
_EFFECTS = {
    "more delay": (
        "rtt_answered_p99_ms", "ect1_rtt_answered_p99_ms", "frame_shown_p99_ms", "rtt_p50_ms", "ect1_rtt_p50_ms",
        "rtt_in_time", "ect1_rtt_in_time", "tick_p99_ms", "input_p99_ms",
    ),
    _SLOWER_PAGES: ("load_p50_ms", "fcp_p50_ms", "load_p95_ms", "lcp_p95_ms", "fcp_p95_ms"),
    "less goodput": ("victim_mbps", "fair_share_met"),
    "more loss": ("answered_share", "ect1_answered_share"),
    _PICTURE: ("played_height", "mean_height", "played_share", "unfrozen_share", "fps", "frames_in_time"),
}  # fmt: skip
#: What a sentence calls a delay.
_DELAYS = {
    "rtt_answered_p99_ms": "delay P99", "frame_shown_p99_ms": "delay P99 of the frames", "rtt_p50_ms": "median delay",
    "tick_p99_ms": "delay P99 of the ticks", "input_p99_ms": "delay P99 of the inputs",
}  # fmt: skip
_ECT1 = "ect1_"


class Effect(NamedTuple):
    """Relevant harm outside the primary metric: its kind, and its words; none where a sentence has the figures."""

    kind: str
    words: str


class Harmed(NamedTuple):
    """A metric with a contender: its value alone and with it, None where unknown, and the harm."""

    solo: float | None
    value: float | None
    harm: float


@dataclass(frozen=True)
class VictimOutcome:
    """The viewer's outcome with one contender: in one run, or on average over several; None where unknown."""

    name: str
    """The contender, or its phase if it competes in several."""
    primary: str
    """The victim's primary metric."""
    value: float | None = None
    alone: float | None = None
    harm: float | None = None
    """Harm by the primary metric."""
    over_runs: Estimate | None = None
    """The same harm with its interval."""
    best: float | None = None
    """Lines of the picture when alone."""
    before: float | None = None
    """Lines shown at the start of the phase."""
    lowest: float | None = None
    pictures: int = 1
    """The pictures of which the heights are the mean."""
    fps: float | None = None
    fps_alone: float | None = None
    stalls: float | None = None
    stall_s: float | None = None
    freezes: float | None = None
    never_shown: float | None = None
    """Share of a call's frames that were never shown."""
    never_shown_alone: float | None = None
    load: float | None = None
    """Median time until a page had loaded, ms."""
    load_alone: float | None = None
    loads: float | None = None
    loads_unfinished: float | None = None
    in_16ms: float | None = None
    in_100ms: float | None = None
    """Shares of a game's ticks that were at most so late."""
    ticks_lost: float | None = None
    effects: tuple[Effect, ...] = ()
    """Relevant harm outside the primary metric."""

    @property
    def severity(self) -> Severity | None:
        """The word for the harm; None without a figure."""
        return None if self.harm is None else severity(self.harm)


@dataclass(frozen=True)
class Badge:
    """A label of a page: `kind` and `word` choose its look, `text` is what it says."""

    kind: str
    word: str
    text: str


def measurement(status: str) -> Badge:
    """Return the badge of a measurement: valid, invalid or interrupted."""
    return Badge("measurement", status, f"measurement: {status}")


def harm_badge(outcome: VictimOutcome, named: bool = False) -> Badge:
    """Return the badge of a contender's harm; `named`: include the name, if no sentence next to it does."""
    word = outcome.severity or "unknown"
    return Badge("harm", word, f"harm: {word}" + (f" with {outcome.name}" if named else ""))


def outcomes(scores: Scores) -> list[VictimOutcome]:
    """Return the viewer's outcome in every contender phase of a run."""
    alone = scores.baseline
    primary = _primary(scores)
    harms = {harm.phase: harm.harm for harm in scores.harm if harm.metric == scores.primary}

    def harmed(phase: str) -> dict[str, Harmed]:
        """Return the harm in a phase outside the primary metric."""
        of = (it for it in scores.harm if it.phase == phase and it.metric != scores.primary and not it.demand_met)
        return {it.metric: Harmed(it.solo, it.value, it.harm) for it in of}

    return [
        VictimOutcome(
            name=phase.name,
            harm=harms.get(phase.name),
            effects=effects(harmed(phase.name), DEFAULT),
            best=alone.dominant_height if alone else None,
            before=_height_at(scores, phase.start),
            lowest=phase.lowest_height,
            pictures=pictures_of(scores.parties),
            **_had(primary, phase.model_dump(), alone.model_dump() if alone else {}),
        )
        for phase in scores.phases
        if phase.contender
    ]


def average_outcomes(summary: ExperimentSummary, pictures: int = 1) -> list[VictimOutcome]:
    """Return the viewer's average outcome with every contender over the valid runs of a summary.

    The heights of every run are the mean of so many `pictures`.
    """
    harm = summary.primary_harm
    primary = summary.primary or PRIMARY["video"]

    def values(contender: str | None) -> dict[str, float | None]:
        shares: dict[str, float | None] = {}
        for figure in (*summary.measured, *summary.further):
            estimate = figure.of(contender)
            shares[figure.metric] = estimate.value if estimate else None
        return shares

    alone = values(None)
    made = []
    for name in summary.contenders:
        contended, of_harm = values(name), harm.contended.get(name) if harm else None
        made.append(
            VictimOutcome(
                name=name,
                harm=of_harm.value if of_harm else None,
                over_runs=of_harm,
                effects=effects(_harmed(summary, name), summary.relevance),
                best=_lowest(summary, None),
                lowest=_lowest(summary, name),
                pictures=pictures,
                **_had(primary, contended, alone),
            )
        )
    return made


def _lowest(summary: ExperimentSummary, contender: str | None) -> float | None:
    """Return the lowest height of the middle run, or of the lower one of two: between them, no viewer had one."""
    figure = summary.figure("lowest_height")
    estimate = figure.of(contender) if figure else None
    return median_low(estimate.values) if estimate else None


def _harmed(summary: ExperimentSummary, contender: str) -> dict[str, Harmed]:
    """Return the average harm with a contender outside the primary metric."""
    found = {}
    for figure in summary.harm:
        harm, measured = figure.contended.get(contender), summary.figure(figure.metric)
        if harm and not figure.primary and not figure.unlimited(contender):
            solo, value = (measured.of(name) if measured else None for name in (None, contender))
            found[figure.metric] = Harmed(solo.value if solo else None, value.value if value else None, harm.value)
    return found


def effects(harmed: Mapping[str, Harmed], relevance: Relevance) -> tuple[Effect, ...]:
    """Return the effects of relevant harm, by metric, one of every kind."""
    relevant = {
        metric: it
        for metric, it in harmed.items()
        if relevant_severity(metric, it.harm, it.solo, it.value, relevance) != "none"
    }
    found = []
    for kind, metrics in _EFFECTS.items():
        if first := next((metric for metric in metrics if metric in relevant), None):
            name = first.removeprefix(_ECT1)
            worse = max((it for probe in ("", _ECT1) if (it := relevant.get(probe + name))), key=lambda it: it.harm)
            found.append(Effect(kind, _effect(name, worse)))
    return tuple(found)


def _effect(metric: str, harmed: Harmed) -> str:
    """Return the harm in a metric, by its name without the probe, in words."""
    solo, value, harm = harmed
    if delay := _DELAYS.get(metric):
        rise = None if solo is None or value is None else value - solo
        return f"{delay} rises" + (f" by {milliseconds(rise)} ms" if rise is not None and isfinite(rise) else "")
    match metric:
        case "rtt_in_time":
            return f"{'fewer' if value is None else percent(value) + ' of'} probes are answered within 100 ms"
        case "victim_mbps":
            return f"goodput falls by {percent(harm)}"
        case "fair_share_met":
            return f"goodput is {percent(harm)} below its fair share"
        case "answered_share":
            return f"{'more' if value is None else percent(1 - value) + ' of'} probes are lost"
    return ""


def _had(primary: str, with_it: Mapping[str, Any], alone: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an outcome that one run and several have in common."""
    own = ("fps", "stalls", "stall_s", "freezes")
    return {
        "primary": primary,
        "value": with_it.get(primary),
        "alone": alone.get(primary),
        "fps_alone": alone.get("fps"),
        "never_shown": with_it.get("frame_loss"),
        "never_shown_alone": alone.get("frame_loss"),
        "load": with_it.get("load_p50_ms"),
        "load_alone": alone.get("load_p50_ms"),
        "loads": with_it.get("page_loads"),
        "loads_unfinished": with_it.get("page_loads_unfinished"),
        "in_16ms": with_it.get("tick_in_16ms"),
        "in_100ms": with_it.get("tick_in_100ms"),
        "ticks_lost": with_it.get("tick_loss"),
        **{name: with_it.get(name) for name in own},
    }


def _primary(scores: Scores) -> str:
    """Return the primary metric; scores before 2.0 do not name it, and only a call has another end."""
    return scores.primary or PRIMARY["call" if scores.far else "video"]


def _height_at(scores: Scores, t: float) -> int | None:
    """Return the height shown at a time in s of the run; None if unknown."""
    before = [change.after for change in scores.renditions if change.t <= t]
    later = [change.before for change in scores.renditions if change.t > t]
    return before[-1] if before else later[0] if later else None


def phrase(outcome: VictimOutcome) -> str:
    """Return the outcome with a contender: the primary metric, then frames, stalls and resolution."""
    if outcome.primary == PRIMARY["game"]:
        parts = [part for part in (_unharmed(outcome, True), *_of_game(outcome)) if part]
        return "; ".join(parts + ([f"harm {interval(outcome.over_runs)}"] if outcome.over_runs else []))
    call = outcome.primary == PRIMARY["call"]
    if outcome.primary == PRIMARY["web"]:
        harm = [f"harm {interval(outcome.over_runs)}"] if outcome.over_runs else []
        return "; ".join([*(part for part in (_unharmed(outcome, True), *_of_pages(outcome)) if part), *harm])
    parts = [part for part in (_unharmed(outcome, call), _of_call(outcome) if call else _of_video(outcome)) if part]
    if outcome.never_shown and outcome.never_shown >= _NEVER_SHOWN:
        alone = outcome.never_shown_alone or 0
        parts.append(
            f"{percent(outcome.never_shown)} never shown"
            + (f" ({percent(alone)} alone)" if alone >= _NEVER_SHOWN else "")
        )
    slower = (outcome.fps_alone or 0) * (1 - _SLOWER)
    if outcome.fps is not None and (call or outcome.fps < slower):
        parts.append(f"{outcome.fps:.0f} frames/s")
    parts += [part for part in (_stops(outcome, call), _resolution(outcome)) if part]
    if outcome.over_runs:
        parts.append(f"harm {interval(outcome.over_runs)}")
    return "; ".join(parts)


def _unharmed(outcome: VictimOutcome, call: bool) -> str:
    """Return which harm there is where the primary metric has none; empty without any."""
    words = [effect.words for effect in outcome.effects if effect.words]
    if outcome.severity != "none" or not words:
        return ""
    picture_kept = len(words) == len(outcome.effects)
    return (f"{'' if call else 'picture '}unharmed, but " if picture_kept else "") + enumerated(words)


def enumerated(words: Sequence[str]) -> str:
    """Return words as a list in a sentence."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def seen(outcome: VictimOutcome) -> str:
    """Return the primary metric with a contender and alone, for a table: `156 lines (720 alone)`."""
    if outcome.value is None:
        return "–"
    if outcome.primary == PRIMARY["web"]:
        return seconds_text(outcome.value) + (
            "" if outcome.alone is None else f" ({seconds_text(outcome.alone)} alone)"
        )
    share = outcome.primary in (PRIMARY["call"], PRIMARY["game"])
    value, alone = (
        "" if it is None else percent(it) if share else f"{it:.0f}" for it in (outcome.value, outcome.alone)
    )
    return f"{value} {'in time' if share else 'lines'}" + (f" ({alone} alone)" if alone else "")


def seconds_text(ms: float) -> str:
    """Return a time of a page in s; never reached if it is infinite."""
    return f"{ms / 1e3:.2f} s" if isfinite(ms) else "unfinished"


def _of_pages(outcome: VictimOutcome) -> list[str]:
    """Return what a user waits for, and how many pages did not load within the phase."""
    if outcome.value is None:
        return ["no page opened"]

    def waited(name: str, value: float, alone: float | None) -> str:
        return f"{name} {seconds_text(value)}" + ("" if alone is None else f" ({seconds_text(alone)} alone)")

    parts = [waited("median LCP", outcome.value, outcome.alone)]
    if outcome.load is not None:
        parts.append(waited("load", outcome.load, outcome.load_alone))
    if outcome.loads and outcome.loads_unfinished:
        parts.append(f"{round(outcome.loads_unfinished, 1):g} of {count_of(outcome.loads, 'page')} not loaded in time")
    return parts


def _of_call(outcome: VictimOutcome) -> str:
    if outcome.value is None:
        return "delay of frames not measured"
    alone = "" if outcome.alone is None else f", {percent(outcome.alone)} alone"
    return f"{percent(outcome.value)} of frames within 0.4 s{alone}"


def _of_game(outcome: VictimOutcome) -> list[str]:
    if outcome.value is None:
        return ["lateness of ticks not measured"]
    late = {50: outcome.value, 16: outcome.in_16ms, 100: outcome.in_100ms}
    shares = [f"{percent(1 - share)} later than {ms} ms" for ms, share in late.items() if share is not None]
    alone = "" if outcome.alone is None else f" ({percent(1 - outcome.alone)} alone)"
    first, *others = shares
    lost = [f"{percent(outcome.ticks_lost)} lost"] if outcome.ticks_lost else []
    return [f"{first.replace(' later', ' of ticks later')}{alone}", ", ".join(others), *lost]


def _of_video(outcome: VictimOutcome) -> str:
    if outcome.value is None:
        return "effective resolution not measured"
    alone = "" if outcome.alone is None else f", {outcome.alone:.0f} alone"
    return f"effective resolution {outcome.value:.0f} lines{alone}"


def _stops(outcome: VictimOutcome, call: bool) -> str:
    """Return number and duration of stalls and freezes; every stall is also a freeze."""
    stalls, freezes = outcome.stalls or 0, outcome.freezes or 0
    if outcome.stalls is None and outcome.freezes is None:
        return ""
    if not stalls and not freezes:
        return "no freezes" if call else "no stalls"
    stalled = f"{count_of(stalls, 'stall')} ({outcome.stall_s or 0:.1f} s)" if stalls else ""
    if freezes <= stalls:
        return stalled
    return f"{count_of(freezes, 'freeze')}, {f'of which {stalled}' if stalled else 'no stalls'}"


def _resolution(outcome: VictimOutcome) -> str:
    if outcome.best is None or outcome.lowest is None:
        return ""
    if outcome.lowest >= outcome.best:
        return "resolution kept"
    mean = mean_of(outcome.pictures)
    rung, lines, of_several = ("", " lines", f" lines ({mean})") if mean else ("p", "p", "")
    if outcome.before and outcome.before < outcome.best:
        # A drop left by an earlier contender is not this one's effect.
        falls = outcome.lowest < outcome.before
        still = f"resolution already at {outcome.before:g}{rung} of {outcome.best:g}{rung}{of_several}"
        return f"{still}, falls to {outcome.lowest:g}{lines}" if falls else f"{still}, falls no further"
    return f"resolution falls from {outcome.best:g}{rung} to {outcome.lowest:g}{rung}{of_several}"


def sentence(outcome: VictimOutcome, service: str = "") -> str:
    """Return one sentence on what happened to the viewer with one contender; `service` names what was watched."""
    return f"{_watched(outcome, service)} with {outcome.name}: {phrase(outcome)}."


def _watched(outcome: VictimOutcome, service: str) -> str:
    from sojourn.apps import SERVICES

    if outcome.primary == PRIMARY["call"]:
        return "Room" if service == "room" else "Call"
    return SERVICES[service].watched if service in SERVICES else "Video"


def sureness(runs: int, baseline_s: float | None) -> str:
    """Return how reliable this number of runs is, with a shortest baseline of `baseline_s`."""
    counted = "One run, no interval"
    if runs > 1:
        from sojourn.scoring.statistics.intervals import ENOUGH  # needs SciPy, which a single run does not

        counted = f"{runs} runs" + (f", {ENOUGH} needed for a result" if runs < ENOUGH else "")
    short = alone_for(baseline_s).removesuffix(", ")
    return counted + (f"; alone for {short}" if short else "") + "."


def home_outcomes(scores: Scores) -> list[tuple[str, Badge, str]]:
    """Return name, badge and sentence of every member of a home with every update, by its most harmed figure."""
    members: dict[tuple[str, str], list[HomeFigure]] = {}
    for it in scores.home:
        members.setdefault((it.member, it.update), []).append(it)
    made = []
    for (member, update), figures in members.items():
        worst = max(figures, key=lambda it: max(_home_harms(it)))
        words = [_home_severity(it) for it in figures]
        word = next((severe for severe in ("severe", "some") if severe in words), "none")
        named = MEMBERS[member]
        made.append(
            (
                named,
                Badge("harm", word, f"harm: {word}"),
                f"{named.capitalize()}, update {update}: {_home(worst, scores)}.",
            )
        )
    return made


def _home_harms(it: HomeFigure) -> list[float]:
    return [harmed for harmed in (it.update_harm, it.all_harm) if harmed is not None] or [0.0]


def _home_severity(it: HomeFigure) -> str:
    pairs = ((it.with_update, it.update_harm), (it.with_all, it.all_harm))
    words = [relevant_severity(it.metric, harmed, it.alone, value) for value, harmed in pairs if harmed is not None]
    return next((word for word in ("severe", "some") if word in words), "none")


def _home(it: HomeFigure, scores: Scores) -> str:
    """Return a figure of a home alone, with the update and with all other members."""
    phases, unit = {phase.name: phase for phase in scores.phases}, unit_of(it.metric)

    def shown(value: float, phase: str | None) -> str:
        if not unit:
            return percent(value)
        known = phases.get(phase or "")
        text = number(value) if known is None else value_text(it.metric, lambda name: getattr(known, name))
        return f"{text} {unit}" if isfinite(value) else text

    parts = [f"{shown(it.alone, None)} alone"]
    parts += [f"{shown(it.with_update, it.update_phase)} with it"] if it.with_update is not None else []
    parts += [f"{shown(it.with_all, it.all_phase)} with all"] if it.with_all is not None else []
    return f"{METRICS[it.metric].label.replace(' its ', ' the ')}: {', '.join(parts)}"


def home_title(scores: Scores) -> str:
    """Return the worst harm in a home and whom it hits: `severe harm to web user and game`."""
    had = home_outcomes(scores)
    for word in ("severe", "some"):
        if names := dict.fromkeys(name for name, badge, _ in had if badge.word == word):
            return f"{word} harm to {enumerated([*names])}"
    return "no harm to any member"


def headline(scores: Scores, service: str = "") -> str:
    """Return the outcome of a valid run: one sentence per contender, then how reliable it is."""
    sentences = [words for *_, words in home_outcomes(scores)]
    sentences = sentences or [sentence(outcome, service) for outcome in outcomes(scores)]
    if not sentences:
        return "No contender competed."
    return " ".join([*sentences, sureness(1, scores.baseline.seconds if scores.baseline else None)])


def average_headline(summary: ExperimentSummary, service: str = "", pictures: int = 1) -> str:
    """Return the outcome of several runs in the form of `headline`; empty if none is valid.

    The heights of every run are the mean of so many `pictures`.
    """
    sentences = [sentence(outcome, service) for outcome in average_outcomes(summary, pictures)]
    if not summary.valid:
        return ""
    return " ".join([*sentences, sureness(len(summary.valid), summary.baseline_s)])


def title(outcomes: Sequence[VictimOutcome]) -> str:
    """Return the worst harm and its contenders, for a page title: `severe harm with prague`, `no visible harm`.

    Visible effects outside the primary metric exclude the latter.
    """
    for word in ("severe", "some"):
        if names := [outcome.name for outcome in outcomes if outcome.severity == word]:
            return f"{word} harm with {' and '.join(names)}"
    if not outcomes:
        return "no contender"
    if any(outcome.severity is None for outcome in outcomes):
        return "harm unknown"
    by_names: dict[tuple[str, ...], list[str]] = {}
    for kind in _EFFECTS:
        if who := tuple(it.name for it in outcomes if kind in {effect.kind for effect in it.effects}):
            by_names.setdefault(who, []).append(kind)
    but = [f"{enumerated(kinds)} with {enumerated(who)}" for who, kinds in by_names.items()]
    picture = any(_PICTURE in kinds for kinds in by_names.values())
    return ("primary metric unharmed" if picture else "no visible harm") + (f", but {'; '.join(but)}" if but else "")


def badges(outcomes: Sequence[VictimOutcome]) -> list[Badge]:
    """Return one badge per contender, with its name."""
    return [harm_badge(outcome, named=True) for outcome in outcomes]
