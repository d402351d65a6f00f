# SPDX-License-Identifier: Apache-2.0
"""Sojourn's origin with Prague: its data is ECT(1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import polars as pl

from sojourn.scoring.gates.base import gate_of_runs
from sojourn.scoring.gates.marking import ecn_fields, marked
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence


@gate_of_runs("origin-marked")
def origin(run: RunEvidence) -> Iterable[Gate]:
    """Judge the video's data before the bottleneck if the origin sends by Prague: it must be ECT(1)."""
    if run.setting.elsewhere or run.setting.call or run.options.get("origin_cc") != "prague":
        return
    sent = None
    if run.before:
        # Linux sends retransmissions and packets without data as Not-ECT, whatever the connection negotiated.
        sent = run.before.victim.filter((pl.col("payload") > 0) & ~pl.col("resent"))
    yield marked("origin-marked", "video", "origin", ecn_fields(sent, run.setting.span), "ect1", run.limits)
