# SPDX-License-Identifier: Apache-2.0
"""The pages of a batch by the rules of axe-core and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.harness.soak.serve import Address, StatusPage
from sojourn.harness.soak.summary import write_summary
from tests.programs.harness.report.axe.rules import judge
from tests.programs.harness.soak.soaks import soak


@pytest.mark.lab
def test_the_pages_of_a_batch(soak_place: Path, request: pytest.FixtureRequest) -> None:
    batch, _ = soak(soak_place, "[cells.good]\nbuffer = 2\n[cells.void]\nbuffer = 3\n", "rounds = 1\nretries = 0\n")
    chromium = request.getfixturevalue("chromium")  # a soak ends what it finds running at its end
    with StatusPage(batch, Address("127.0.0.1", 0)) as status:
        judge(chromium, {"batch": write_summary(batch), "status": f"http://127.0.0.1:{status.at.port}/"})
