# SPDX-License-Identifier: Apache-2.0
"""A figure is declared once, next to its field: its label, its unit by its name, and its better direction."""

from __future__ import annotations

import pytest

from sojourn.scoring.long_table import METRICS, label_of, named
from sojourn.scoring.schema import cell_scores
from sojourn.scoring.schema.cell_scores import CellRecord, declared
from sojourn.scoring.schema.metric import metrics_of, unit_of, with_unit
from sojourn.scoring.schema.scores import HARMED

#: What a record of a cell has besides figures.
_SPECIFIED = {"flow", "probe", "contender", "rtt_ms", "up", "start_s", "end_s", "ecn", "ccdf", "ms", "percent"}
_PARTS = {
    "while_flow", "flows", "total", "periods", "last", "probes", "call", "media", "packets", "protection", "short",
    "wire", "replay",
}  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "label", "better"),
    [
        ("victim_mbps", "goodput of the victim (Mbit/s)", "more"),
        ("contender_mbps", "goodput of the contender (Mbit/s)", None),
        ("below_solo_s", "picture below its height alone (s)", "less"),
        ("harm.fps", "harm: displayed frame rate", "less"),
        ("flows.0.d_ss_mbps", "flow 1, D_SS (Mbit/s)", None),
        ("probes.1.p99_ms", "probe 2, delay, P99 (ms)", "less"),
        ("probes.0.while_flow.2.loss", "probe 1, while flow 3, share lost", "less"),
        ("packets.total.egress_mbps", "packets, total, egress (Mbit/s)", None),
        ("jain", "Jain's index of D_SS", None),
        ("call.0.mbps", "call 1, rate that arrived (Mbit/s)", "more"),
        ("of_somebody_else", "of_somebody_else", None),
    ],
)
def test_a_metric_is_named_by_its_field(metric: str, label: str, better: str | None) -> None:
    assert (label_of(metric), named(metric)[1].better) == (label, better)


def test_every_figure_of_a_cell_is_declared() -> None:
    records = [it for it in vars(cell_scores).values() if isinstance(it, type) and issubclass(it, CellRecord)]
    fields = {(record.__name__, name) for record in records for name in record.model_fields}
    known = {(record.__name__, name) for record in records for name in metrics_of(record)}
    assert {it for it in fields - known if it[1] not in _SPECIFIED | _PARTS} == {
        ("CellScores", "window_s"), ("FlowScores", "window_s"), ("MediaPhase", "window_s"),
        ("PacketScores", "series"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "address",
    [
        "",
        "0",
        "flows",
        "flows.0",
        "flows.0.contender",
        "jain.0",
        "flows.x.d_ss_mbps",
        "flows.d_ss_mbps",
        "last.d_ss_mbps",
        "short.0.median_s",
        "flows.0.0.d_ss_mbps",
    ],
)
def test_what_is_no_figure_has_no_declaration(address: str) -> None:
    assert declared(address) is None


def test_harm_is_on_figures_with_a_better_direction() -> None:
    assert set(HARMED) <= set(METRICS) and all(METRICS[name].better for name in HARMED)


def test_a_share_has_no_unit() -> None:
    assert unit_of("frames_in_time") == "" and with_unit("late", "") == "late" and unit_of("harm.fps") == ""
