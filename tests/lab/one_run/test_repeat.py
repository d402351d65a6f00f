# SPDX-License-Identifier: Apache-2.0
"""Two repetitions of the main job: orders that differ, and one summary of both."""

from __future__ import annotations

import json

import pytest

from sojourn.harness.report.experiments import SUMMARY
from sojourn.harness.report.repetitions import TABLE
from sojourn.harness.store.manifest import REPORT
from sojourn.harness.store.runs import RunStore
from tests.lab.one_run.conftest import Repeated, contenders

pytestmark = pytest.mark.lab


def test_repetitions_differ_in_order_and_are_summarised_together(repeated: Repeated) -> None:
    assert sorted(map(contenders, repeated.runs.values())) == [["cubic", "prague"], ["prague", "cubic"]]
    runs = RunStore(repeated.results).runs()
    assert sorted(runs) == sorted(repeated.runs.values())
    (page,) = repeated.results.glob(f"*-summary/{REPORT}")
    assert str(page) in repeated.stdout and "2 of 2 runs are valid" in repeated.stdout
    assert all(f"../{run.name}/{REPORT}" in page.read_text() for run in runs)
    (summary,) = json.loads((page.parent / SUMMARY).read_text())
    assert summary["valid"] == [run.name for run in runs] and (page.parent / TABLE).exists()
