# SPDX-License-Identifier: Apache-2.0
"""A verdict on runs for CI: thresholds from a file against the summary of finished, valid runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.toml_file import TomlError, read_toml
from sojourn.harness.report.experiments import Experiment, experiments, find_runs, is_summary
from sojourn.harness.report.index import Left, unfinished
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.store.integrity import IntegrityError, check_run
from sojourn.harness.store.manifest import REPORT, Manifest, is_run, status_words
from sojourn.scoring.statistics.numbers import formatted, never_came
from sojourn.scoring.statistics.relevance import DEFAULT, Relevance
from sojourn.scoring.statistics.thresholds import (
    Judgement,
    Threshold,
    ThresholdError,
    judge,
    parse,
    require_known,
    why_no_figure,
)

Look = Callable[[Path, Manifest], None]
"""Called with a run and its manifest; raises if the run must not be judged."""


class VerdictExit(IntEnum):
    """Exit codes; 2 is reserved for a wrong command line."""

    MET = 0
    NOT_MET = 1
    VOID = 3
    BROKEN = 4
    NOT_DECIDED = 5

    @property
    def words(self) -> str:
        """The verdict in words; data for programs use the code's name."""
        return status_words(self.name.lower())


#: An experiment's possible verdicts, the worst last.
_RANKS = (VerdictExit.MET, VerdictExit.NOT_DECIDED, VerdictExit.NOT_MET, VerdictExit.VOID)


@dataclass(frozen=True)
class Verdict:
    """The results of all thresholds in one experiment."""

    experiment: Experiment
    judgements: tuple[Judgement, ...]
    not_judged: Mapping[str, str] = field(default_factory=dict)
    """The thresholds that do not apply to the experiment, each with the reason: other experiments have the figure."""

    @property
    def void(self) -> dict[str, list[str]]:
        """The invalid runs and the reasons."""
        return self.experiment.summary.void

    @property
    def lines(self) -> list[str]:
        """What has no part in the verdict, a line each: invalid runs, duplicates, thresholds that do not apply."""
        return [
            *(f"invalid: {name}: {'; '.join(reasons)}" for name, reasons in self.void.items()),
            *(f"duplicate: {it.name}: {it.reason}" for it in self.experiment.duplicates),
            *(f"not judged here: {text}: {why}" for text, why in self.not_judged.items()),
        ]

    @property
    def words(self) -> str:
        """The verdict in words."""
        return "no threshold applies" if self.not_judged and not self.judgements else self.code.words

    @property
    def code(self) -> VerdictExit:
        """Void if no run is valid, whatever the thresholds."""
        if not self.experiment.summary.valid:
            return VerdictExit.VOID
        outcomes = {it.outcome for it in self.judgements}
        if outcomes & {"not met", "no figure"}:
            return VerdictExit.NOT_MET
        return VerdictExit.NOT_DECIDED if "not decided" in outcomes else VerdictExit.MET


def read_thresholds(file: Path) -> list[Threshold]:
    """Return the thresholds of a TOML file, `thresholds = ["stalls == 0", …]`. Raises ReportError."""
    try:
        document = read_toml(file)
    except OSError as missing:
        raise ReportError(f"--thresholds {file}: {missing.strerror}", code="unreadable-file") from missing
    except TomlError as broken:
        raise ReportError(f"--thresholds {file}: {broken}", code="unreadable-file") from broken
    lines = document.get("thresholds")
    if set(document) != {"thresholds"} or not isinstance(lines, list) or not lines:
        raise ReportError(f'--thresholds {file}: give only a list, thresholds = ["stalls == 0"]', code="invalid-value")
    try:
        return [parse(str(line)) for line in lines]
    except ThresholdError as wrong:
        raise ReportError(f"--thresholds {file}: {wrong}", code="invalid-value") from wrong


def verdicts(
    places: Sequence[Path],
    thresholds: list[Threshold],
    *,
    sure: bool = False,
    signers: Path | None = None,
    look: Look | None = None,
    relevance: Relevance = DEFAULT,
) -> list[Verdict]:
    """Judge the runs at `places`, per experiment; `look` is called with every run and its manifest.

    Harm above the bar is above it by at least the size in `relevance`.

    Raises ReportError, StoreError for a run of which any file is not as it was recorded, IntegrityError for one that
    none of the `signers` signed, and what `look` raises.
    """
    runs = find_runs(places, whole=False)  # every run and its signature is checked below
    for run in runs:
        try:
            manifest = check_run(run.path, (REPORT,), signers).manifest
        except IntegrityError as wrong:
            why = str(wrong)
            raise IntegrityError(why if str(run.path) in why else f"{run.path}: {why}", code=wrong.code) from wrong
        if look:
            look(run.path, manifest)
    groups = experiments(runs, relevance)
    try:
        require_known(thresholds, [one.summary for one in groups])
    except ThresholdError as wrong:
        raise ReportError(str(wrong), code="unknown-value") from wrong
    return [_verdict(thresholds, one, sure) for one in groups]


def _verdict(thresholds: Sequence[Threshold], one: Experiment, sure: bool) -> Verdict:
    if not one.summary.valid:
        return Verdict(one, ())
    not_judged = {it.text: why for it in thresholds if (why := why_no_figure(it, one.summary))}
    judged = [it for it in thresholds if it.text not in not_judged]
    return Verdict(one, tuple(judge(judged, one.summary, sure=sure)), not_judged)


def left_out(places: Sequence[Path]) -> list[Left]:
    """Return the unfinished runs in the folders of `places`, which are excluded."""
    folders = (place for place in places if not is_run(place) and not is_summary(place))
    return [left for folder in folders for left in unfinished(folder)]


def code_of(given: Sequence[Verdict]) -> VerdictExit:
    """Return the worst: void before not met before not decided before met."""
    return max((verdict.code for verdict in given), key=_RANKS.index, default=VerdictExit.VOID)


def records(given: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return verdicts as JSON-ready data."""
    return [
        {
            "experiment": verdict.experiment.title,
            "verdict": verdict.code.name.lower(),
            "runs": [str(run.path) for run in verdict.experiment.runs],
            "void": verdict.void,
            "not_judged": verdict.not_judged,
            "duplicates": {it.name: it.of for it in verdict.experiment.duplicates},
            "thresholds": [
                {
                    "threshold": it.threshold.text, "metric": it.threshold.metric, "where": it.where,
                    "outcome": it.outcome, "why": it.why,
                    "value": it.figure and it.figure.value, "low": it.figure and it.figure.low,
                    "high": it.figure and it.figure.high, "runs": it.figure.n if it.figure else 0,
                }
                for it in verdict.judgements
            ],
        }
        for verdict in given
    ]  # fmt: skip


def figure_of(judgement: Judgement) -> str:
    """Return the figure as displayed, with its interval, if any."""
    figure = judgement.figure
    if figure is None:
        return "–"
    never = never_came(judgement.threshold.metric)
    span = ""
    if figure.low is not None and figure.high is not None:
        span = f" ({formatted(figure.low, '.4g', never)} to {formatted(figure.high, '.4g', never)})"
    return f"{formatted(figure.value, '.4g', never)}{span}, n={figure.n}"


def markdown(given: Sequence[Verdict]) -> str:
    """Return verdicts as Markdown, for the summary of a CI job. Text from runs is escaped."""
    lines = []
    for verdict in given:
        lines += [f"### {_cell(verdict.experiment.title)}: {verdict.words}", ""]
        lines += [f"- {_cell(line)}" for line in verdict.lines]
        if verdict.judgements:
            lines += ["", "| threshold | where | figure | |", "|---|---|---|---|"]
            for it in verdict.judgements:
                cells = it.threshold.text, it.where, figure_of(it), it.text
                lines.append(f"| {' | '.join(map(_cell, cells))} |")
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Escape text for Markdown: no markup, no HTML, no end of a cell."""
    return "".join(f"&#{ord(char)};" if char in "|<>&`*_[]()#!\\~@" else char for char in printable(text))


def junit(given: Sequence[Verdict]) -> bytes:
    """Return verdicts as JUnit XML: one suite per experiment, one test case per threshold, its figure as a property."""
    root = ElementTree.Element("testsuites")
    for verdict in given:
        cases = verdict.judgements
        outcomes = Counter(it.outcome for it in cases)
        suite = ElementTree.SubElement(
            root, "testsuite", name=printable(verdict.experiment.title),
            tests=str(len(cases) + len(verdict.not_judged) or 1),
            failures=str(outcomes["not met"] + outcomes["no figure"]),
            errors=str(int(verdict.code == VerdictExit.VOID)),
            skipped=str(outcomes["not decided"] + len(verdict.not_judged)),
        )  # fmt: skip
        for it in cases:
            case = ElementTree.SubElement(suite, "testcase", classname=it.where, name=it.threshold.text)
            if it.figure:
                properties = ElementTree.SubElement(case, "properties")
                ElementTree.SubElement(properties, "property", name=it.threshold.metric, value=f"{it.figure.value:.6g}")
            if it.outcome != "met":
                kind = "skipped" if it.undecided else "failure"
                ElementTree.SubElement(case, kind, message=f"{it.text}: {figure_of(it)}")
        for threshold, why in verdict.not_judged.items():
            case = ElementTree.SubElement(suite, "testcase", classname="not judged here", name=threshold)
            ElementTree.SubElement(case, "skipped", message=why)
        if verdict.code == VerdictExit.VOID:
            why = "; ".join(f"{name}: {', '.join(reasons)}" for name, reasons in verdict.void.items())
            case = ElementTree.SubElement(suite, "testcase", classname="runs", name="valid runs")
            ElementTree.SubElement(case, "error", message=printable(f"invalid: {why}"))
    return xml_text(root)


def xml_text(root: ElementTree.Element) -> bytes:
    """Return an XML document as the bytes of its file."""
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
