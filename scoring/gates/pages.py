# SPDX-License-Identifier: Apache-2.0
"""Web pages: every phase has loads, and whatever did not load was late, not missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import gate, gate_of_runs
from sojourn.scoring.schema.scores import PageLoad
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("page-loads", "pages-loaded")
def pages(run: RunEvidence) -> Iterable[Gate]:
    """Judge the loads of a run's web pages."""
    if run.loads is not None:
        yield loads_begun(run.loads, [phase.name for phase in run.setting.phases])
        yield loads_whole(run.loads)


def loads_begun(loads: Sequence[PageLoad], phases: Sequence[str]) -> Gate:
    """A page must have been opened in every phase."""
    without = [name for name in phases if not any(load.phase == name for load in loads)]
    measured = f"none in {', '.join(without)}" if without else f"{len(loads)} in all"
    return gate("page-loads", "page loads", not without, measured, "at least one in every phase")


def loads_whole(loads: Sequence[PageLoad]) -> Gate:
    """No page may fail, and every resource must be usable: a slow network makes pages late, not wrong."""
    failed = [load for load in loads if load.failed]
    errors = sum(load.errors for load in loads)
    measured = f"{len(failed)} of {len(loads)} pages failed, {errors} resources could not be used"
    if failed:
        measured += f"; first: {failed[0].failed}"
    return gate("pages-loaded", "pages loaded", not failed and not errors, measured, "none")
