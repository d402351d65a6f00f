# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

from sojourn.harness.matrix.cells.counters import COUNTERS, shown


def test_a_page_shows_what_tells_of_marks_and_losses_at_each_end(tmp_path: Path) -> None:
    assert shown(tmp_path) == ([], [])
    counted = {"host0": {"TcpRetransSegs": 3, "IpInReceives": 900}, "receiver": {"IpExtInCEPkts": 41}}
    (tmp_path / COUNTERS).write_text(json.dumps(counted))
    assert shown(tmp_path) == (["host0", "receiver"], [["IpExtInCEPkts", "0", "41"], ["TcpRetransSegs", "3", "0"]])
    (tmp_path / COUNTERS).write_text("{")
    assert shown(tmp_path) == ([], [])
