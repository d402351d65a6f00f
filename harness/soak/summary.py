# SPDX-License-Identifier: Apache-2.0
"""The results of a batch: a page for people, JUnit XML for other programs, and changes since the last batch.

All of it is generated from the batch's files, and can be regenerated (`sojourn soak summary FOLDER`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from sojourn.hardware.machine.files import replace_file
from sojourn.hardware.machine.messages import printable
from sojourn.harness.report.compare import compare
from sojourn.harness.report.comparison_page import lines as compared_lines
from sojourn.harness.report.comparison_page import write_comparison
from sojourn.harness.report.experiments import experiments
from sojourn.harness.report.html import write_page
from sojourn.harness.report.index import read_folder, write_index_of
from sojourn.harness.report.repetitions import INDEX, grids, verdict_view
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.report.verdict import xml_text
from sojourn.harness.soak.loop import SoakExit
from sojourn.harness.soak.plan import PlanError
from sojourn.harness.soak.state import Attempt, BatchDirectory, StateError, batches
from sojourn.harness.soak.status import CellStatus, Status, clock, lines, status
from sojourn.harness.store.manifest import REPORT, StoreError
from sojourn.harness.store.reasons import joined

JUNIT, COMPARISON = "junit.xml", "compare.html"
_VERDICTS = {
    SoakExit.ALL_VALID: "every cell has valid runs",
    SoakExit.SOME_NOT: "a cell has no valid run, or was quarantined",
    SoakExit.LAB_BROKEN: "the lab is broken",
    SoakExit.DISK_FULL: "the disk is full",
    SoakExit.UNEXPECTED: "internal error of the soak",
}


def write_summary(folder: BatchDirectory) -> Path:
    """Write the pages and the JUnit XML of a batch; return the page's path. Raises StateError, PlanError, OSError."""
    state, attempts, cause = status(folder), folder.attempts(), folder.batch.cause
    replace_file(folder.path / JUNIT, junit(state, attempts, cause))
    runs, left = read_folder(folder.path)
    repeated = experiments(runs)
    if runs or left:
        write_index_of(folder.path, repeated, left)
    last = last_batch(folder)
    view = {
        "title": f"Batch of {clock(state.begun)} UTC",
        "verdict": verdict(state, cause),
        "good": state.code == SoakExit.ALL_VALID and not cause,
        "lines": lines(state)[1:],
        "cells": state.cells,
        "changed": changed(state, last) if last else ["There is no earlier batch to compare with."],
        "comparison": COMPARISON if (folder.path / COMPARISON).exists() else "",
        "experiments": [{"title": one.title, **verdict_view(one), "grids": grids(one)} for one in repeated],
        "attempts": [_row(folder, attempt) for attempt in attempts],
        "files": [name for name in (INDEX, JUNIT) if (folder.path / name).exists()],
    }
    return write_page("soak.html.j2", view, folder.path / REPORT)


def verdict(state: Status, cause: str) -> str:
    """Return one line on how a batch ended, with the cause if it ended before its time."""
    if state.code is None or state.code >= 128:
        return state.phase
    return _VERDICTS.get(SoakExit(state.code), "?") + (f": {state.phase}" if cause else "")


def last_batch(folder: BatchDirectory) -> BatchDirectory | None:
    """Return the newest earlier batch that has a valid run, or unreadable files."""
    earlier = [batch for batch in batches(folder.path.parent) if batch.path.name < folder.path.name]
    return next((batch for batch in reversed(earlier) if _may_count(batch)), None)


def _may_count(batch: BatchDirectory) -> bool:
    try:
        return any(attempt.outcome == "valid" for attempt in batch.attempts())
    except StateError:  # reported by changed()
        return True


def changed(state: Status, last: BatchDirectory) -> list[str]:
    """Return the changes since an earlier batch, one line each; write the full comparison next to it."""
    lines = [f"Compared with the batch {last.path.name}."]
    try:
        lines += _cells_changed(status(last), state)
    except (PlanError, StateError) as unreadable:
        lines.append(f"Its cells were not compared: {unreadable}")
    try:
        compared = compare(last.path, state.folder)
    except (ReportError, StoreError, OSError) as nothing:
        return [*lines, f"Their figures were not compared: {nothing}"]
    write_comparison(compared, state.folder / COMPARISON)
    return lines + [f"{pair.title}: {line}" for pair in compared.pairs for line in compared_lines(pair)]


def _cells_changed(last: Status, current: Status) -> Iterator[str]:
    before, now = ({cell.name: cell for cell in state.cells} for state in (last, current))
    yield from (f"{name}: a new cell." for name in now if name not in before)
    yield from (f"{name}: no longer in the plan." for name in before if name not in now)
    for name in (name for name in now if name in before):
        yield from _cell_changed(before[name], now[name])


def _cell_changed(before: CellStatus, now: CellStatus) -> Iterator[str]:
    if now.quarantine and not before.quarantine:
        yield f"{now.name}: quarantined now: {'; '.join(now.quarantine)}."
    if before.quarantine and not now.quarantine:
        yield f"{now.name}: no longer quarantined."
    if bool(now.valid) != bool(before.valid):
        yield f"{now.name}: {now.valid} valid runs, {before.valid} before."


def _row(folder: BatchDirectory, attempt: Attempt) -> dict[str, Any]:
    page = folder.path / (attempt.run or "") / REPORT
    took = f"{attempt.ended - attempt.begun:.0f}" if attempt.ended else "–"
    return {
        "number": attempt.number, "cell": attempt.cell, "round": attempt.round, "begun": clock(attempt.begun),
        "took": took, "outcome": attempt.words, "bad": attempt.outcome not in ("valid", "stopped"),
        "text": "; ".join([*map(str, attempt.reasons), *attempt.leaks]) or attempt.headline,
        "run": attempt.run or "", "link": f"{quote(attempt.run)}/{REPORT}" if attempt.run and page.exists() else "",
    }  # fmt: skip


def junit(batch: Status, attempts: Sequence[Attempt], cause: str) -> bytes:
    """Return a batch as JUnit XML: one test case per cell, a failure if it has no valid run or is quarantined."""
    suite = ElementTree.Element("testsuite", name="sojourn soak", tests=str(len(batch.cells)), errors="0")
    failures = skipped = 0
    for cell in batch.cells:
        mine = [attempt for attempt in attempts if attempt.cell == cell.name]
        took = sum((attempt.ended or attempt.begun) - attempt.begun for attempt in mine)
        case = ElementTree.SubElement(suite, "testcase", classname="soak", name=cell.name, time=f"{took:.1f}")
        if cell.quarantine:
            failures += 1
            ElementTree.SubElement(case, "failure", message=printable(f"quarantined: {'; '.join(cell.quarantine)}"))
        elif not cell.valid and not mine:
            skipped += 1
            ElementTree.SubElement(case, "skipped", message=printable(cause or "the time was up"))
        elif not cell.valid:
            failures += 1
            ElementTree.SubElement(case, "failure", message=printable(f"no valid run: {cell.last}"))
        said = [f"run {it.number}: {it.words}: {joined(it.reasons) or it.headline}" for it in mine]
        ElementTree.SubElement(case, "system-out").text = "\n".join(map(printable, said))
    suite.attrib |= {"failures": str(failures), "skipped": str(skipped)}
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return xml_text(root)
