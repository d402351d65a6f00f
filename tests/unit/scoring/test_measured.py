# SPDX-License-Identifier: Apache-2.0
"""A cell without a flow down has no rate of flows down, which its scores hold as 0."""

from __future__ import annotations

from typing import Any

import pytest

from sojourn.harness.matrix.matrix import figure
from sojourn.scoring.long_table import rows_of


@pytest.mark.parametrize("flows", [[], [{"flow": 0, "contender": "cubic", "rtt_ms": 20.0, "up": True}]])
def test_rates_of_no_flow_down_are_no_figures(flows: list[dict[str, Any]]) -> None:
    """A call alone uses the path, and its cell has no flow."""
    document = {
        "flows": flows,
        "utilisation": 0.0,
        "periods": [{"start_s": 0, "end_s": 9, "goodput_mbps": 0.0, "utilisation": 0.0}],
        "call": [{"loss": 0.0}, {"loss": 0.5}],
    }
    assert {row.metric for row in rows_of(document)} == {"call.0.loss", "call.1.loss"}
    assert figure(document, "utilisation") is None and figure(document, "call.0.loss") == 0
    down = {"flow": 1, "contender": "cubic", "rtt_ms": 20.0, "up": False}
    starved = document | {"flows": [*flows, down]}
    assert figure(starved, "utilisation") == figure(starved, "periods.0.goodput_mbps") == 0
    assert "utilisation" in {row.metric for row in rows_of(starved)}
