# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.bottleneck.router import Router, RouterError
from sojourn.bottleneck.spec import Bottleneck
from tests.programs.hardware.machine.cards import write

SPEEDS = {"lan": "1000", "wan": "100"}


def test_a_rate_that_a_link_hardly_carries_is_refused_before_anything_changes(tmp_path: Path) -> None:
    router = Router(write(tmp_path, SPEEDS), cards=True)
    with pytest.raises(RouterError, match=r"^router: wan has a link of 100 Mbit/s, .* 200 Mbit/s.* at most 95 Mbit/s$"):
        router.apply(Bottleneck.symmetric(200_000_000, "pfifo"))
    assert router.links_bps == {"lan": 10**9, "wan": 10**8}
    with pytest.raises(RouterError, match="a link of 100 Mbit/s"):
        router.set_rate("lan", 95_000_001)
    router.steps_bps = 20_000_000, 95_000_001
    with pytest.raises(RouterError, match="a link of 100 Mbit/s"):
        router.apply(Bottleneck.symmetric(10_000_000, "pfifo"))


def test_a_rate_that_the_links_carry_is_not_refused(tmp_path: Path) -> None:
    router = Router(write(tmp_path, SPEEDS), cards=True)
    for attempt in (
        lambda: router.apply(Bottleneck.symmetric(95_000_000, "pfifo")),
        lambda: router.apply(Bottleneck.symmetric(200_000_000, "cake bandwidth 50mbit")),
        lambda: router.set_rate("lan", 95_000_000),
        lambda: Router(write(tmp_path, SPEEDS)).apply(Bottleneck.symmetric(200_000_000, "pfifo")),
        lambda: Router(write(tmp_path, {"lan": "-1"}), cards=True).set_rate("lan", 10**9),
    ):
        with pytest.raises(RouterError, match="tc"):  # of this host, which has no such interfaces
            attempt()
