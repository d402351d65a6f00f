# SPDX-License-Identifier: Apache-2.0
"""An experiment of one's own: whatever the command line asks for, under our name, through a queue of ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sojourn.bottleneck.qdiscs import parse_qdisc


@pytest.mark.experiment
def test_strict_priority(experiment: Callable[..., None]) -> None:
    experiment("strict-priority", qdisc_down=parse_qdisc("prio bands 4"))
