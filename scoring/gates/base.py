# SPDX-License-Identifier: Apache-2.0
"""The parts of a gate: the decorator for a function that judges every run, and the construction of a verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy.typing as npt

from sojourn.scoring.coverage import Coverage
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.validity import Gate, Limits

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence

Judge = Callable[["RunEvidence"], Iterable[Gate]]
"""Judges the evidence of a run and returns gates; none if it does not apply."""


class RunGate:
    """A function that judges every run, and the codes of the gates that it returns."""

    def __init__(self, judge: Judge, codes: tuple[str, ...], *, last: bool) -> None:
        self._judge, self.codes, self.last = judge, codes, last
        self.__name__, self.__module__, self.__doc__ = judge.__name__, judge.__module__, judge.__doc__

    def __call__(self, run: RunEvidence) -> Iterable[Gate]:
        """Judge a run. Raises ValueError for a gate with an unregistered code."""
        for judged in self._judge(run):
            if judged.code not in self.codes:
                raise ValueError(f"gate {judged.name}: code {judged.code!r} is none of {', '.join(self.codes)}")
            yield judged


def gate_of_runs(*codes: str, last: bool = False) -> Callable[[Judge], RunGate]:
    """Register a function of a file in scoring/gates/ as the judge of every run, by the codes of its gates.

    A `last` judge runs after all others have read their files. Raises ValueError for a code that is not kebab-case,
    and if there is none.
    """
    if not codes or any(not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code) for code in codes):
        raise ValueError(f"gate_of_runs needs codes in kebab-case, not {codes}")
    return lambda judge: RunGate(judge, codes, last=last)


def gate(code: str, name: str, ok: bool, measured: str, limit: str) -> Gate:
    """Return a gate whose reason combines the measured value and the limit."""
    reason = "" if ok else f"{name}: {measured}; {limit}"
    return Gate(name=name, code=code, ok=ok, measured=measured, limit=limit, reason=reason)


def at_most(code: str, name: str, value: float | None, limit: float, unit: str, scale: float = 1.0) -> Gate:
    """Return a gate for a figure that must exist and not exceed `limit`; both are shown times `scale` in `unit`."""
    measured = "not recorded" if value is None else f"{value * scale:.3g} {unit}"
    return gate(code, name, value is not None and value <= limit, measured, f"at most {limit * scale:.3g} {unit}")


def covers(code: str, name: str, times: npt.ArrayLike | None, need: Window, limits: Limits) -> Gate:
    """The `times` of a record's samples must span `need` = (start, end) without a long gap; all in Unix s."""
    name, limit = f"{name} complete", f"the whole timeline, no gap over {limits.gap_s:g} s"
    seen = Coverage.of(times, need)
    if seen is None:
        return gate(code, name, False, "not recorded or empty", limit)
    measured = f"begins {seen.late_s:+.1f} s, ends {-seen.early_s:+.1f} s of it, longest gap {seen.gap_s:.1f} s"
    return gate(code, name, seen.complete(limits), measured, limit)
