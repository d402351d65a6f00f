# SPDX-License-Identifier: Apache-2.0
"""scores.json of earlier versions stays readable."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sojourn.scoring.schema.scores import ContenderFlow

FLOW = dict.fromkeys(("sport", "data_packets", "bytes", "not_ect", "ect0", "ect1", "ce", "resent"), 1)
FLOW |= {"phase": "prague", "contender": "prague", "accecn_syn": True}  # type: ignore[dict-item]


@pytest.mark.parametrize("key", ["window_goodput_mbps", "d_ss_mbps"])
def test_window_goodput_is_read_by_its_former_name_and_written_by_its_own(key: str) -> None:
    flow = ContenderFlow.model_validate(FLOW | {key: 7.5})
    written = flow.model_dump(mode="json")
    assert written["window_goodput_mbps"] == 7.5 and "d_ss_mbps" not in written
    assert ContenderFlow.model_validate(written) == flow


def test_a_flow_without_either_is_refused() -> None:
    with pytest.raises(ValidationError, match="window_goodput_mbps"):
        ContenderFlow.model_validate(FLOW)
