# SPDX-License-Identifier: Apache-2.0
"""What the flows of a real run did with ECN, against what the sender's kernel counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sojourn.harness.report.ecn import ecn_rows
from sojourn.harness.store.loaded import LoadError
from tests.refusals import refusal

pytestmark = pytest.mark.lab


def test_the_receiver_echoes_the_queues_marks_and_the_sender_counts_them(harm_run: Path) -> None:
    rows = {row.flow: row for row in ecn_rows(harm_run)}
    bulk = [row for flow, row in rows.items() if flow.startswith("sender:") and row.packets > 100]
    assert bulk and all(row.findings == () and row.offered == row.negotiated != "none" for row in bulk)
    sockets = [json.loads(line) for line in (harm_run / "ss.jsonl").read_text().splitlines()]
    assert any(row.negotiated == "AccECN" for row in bulk)
    for row in (row for row in bulk if row.negotiated == "AccECN"):
        # What is under way when a flow ends is never acknowledged: at most 10 Mbit/s for 20 ms, 17 packets.
        assert row.sent.startswith("ECT(1)") and row.echoed is not None and 0 <= row.marked - row.echoed <= 17
        port = row.flow.split()[0].split(":")[1]
        counted = [it["delivered_ce"] for it in sockets if f":{port}>" in it["flow"]]
        assert 0 < max(counted) <= row.echoed  # the last sample is before the flow's end
        assert counted == sorted(counted)
    victim = next(row for flow, row in rows.items() if flow.startswith("server:443 "))
    assert victim.sent == "Not-ECT" and victim.marked == 0


def test_an_altered_or_missing_capture_is_refused(harm_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(harm_run, tmp_path / "run")
    capture = run / "client.pcapng.zst"
    with capture.open("ab") as file:
        file.write(b"more")
    with refusal(LoadError, "altered", "client.pcapng.zst"):
        ecn_rows(run)
    capture.unlink()
    with refusal(LoadError, "missing", "capture of the client"):
        ecn_rows(run)
