# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.harness.report.contender_names import display_name
from sojourn.harness.report.palette import looks
from sojourn.traffic.contender import OPTIONAL, OURS


@pytest.mark.parametrize(
    ("contender", "shown"),
    [
        ("cubic", "CUBIC"),
        ("cubic-noecn", "CUBIC (no ECN)"),
        ("prague-2020", "Prague (of 2020)"),
        ("quic-bbr3", "BBRv3 over QUIC"),
        ("quic-bbr2", "BBRv2 over QUIC"),
        ("tcp_mine", "tcp_mine"),
        ("flow 1", "flow 1"),
        ("", ""),
    ],
)
def test_a_contender_has_the_name_that_the_field_gives_it(contender: str, shown: str) -> None:
    assert display_name(contender) == shown


def test_every_contender_of_sojourn_has_a_name_and_keeps_its_colour() -> None:
    for name in (*OURS, *OPTIONAL):
        assert display_name(name) != name
        colours = [looks([it])[0].split()[0] for it in (name, display_name(name))]
        assert colours[0] == colours[1] or all("other" in it for it in colours)
