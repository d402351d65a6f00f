# SPDX-License-Identifier: Apache-2.0
"""What makes a function a gate of every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sojourn.scoring.evidence import RawFiles, Setting
from sojourn.scoring.validity import Gate, Limits

Judge = Callable[[RawFiles, Setting, Limits], Iterable[Gate]]
"""Looks at the files and the setting of a run and returns gates, none where it does not apply."""


class RunGate:
    """A function that judges every run."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.__module__, self.__doc__ = judge.__module__, judge.__doc__

    def __call__(self, files: RawFiles, setting: Setting, limits: Limits) -> Iterable[Gate]:
        return self._judge(files, setting, limits)


def gate_of_runs(judge: Judge) -> RunGate:
    """Have every run judged by a function of a file in scoring/gates/."""
    return RunGate(judge)
