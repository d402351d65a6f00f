# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sojourn.harness.report.option_words import option_words


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("rate_up_bps", 4_000_000, ("rate-up", "4 Mbit/s")),
        ("rate_down_bps", 1_000_000_000, ("rate", "1 Gbit/s")),
        ("call_bitrate_bps", 2_500_000, ("call-bitrate", "2.5 Mbit/s")),
        ("call_bitrate_bps", 2_500_001, ("call-bitrate", "2500001 bit/s")),
        ("rtt_us", 20_000, ("rtt", "20 ms")),
        ("hops.0.down.rate_bps", "12000000", ("hops.0.down.rate", "12 Mbit/s")),
        ("buffer_s", 12.0, ("buffer", "12 s")),
        ("rate_steps", [{"at_s": 30.0, "rate_bps": 5_000_000}], ("steps of the rate", "5 Mbit/s from 30 s on")),
        ("rate_steps", [], ("steps of the rate", "none")),
        ("rate_steps", [{"at": 30.0}], ("steps of the rate", "[{'at': 30.0}]")),
        ("ladder", [[240, 300_000], [720, 2_500_000]], ("ladder", "240p at 300 kbit/s, 720p at 2.5 Mbit/s")),
        ("ladder", [], ("ladder", "default")),
        ("loss_percent", 0.5, ("loss", "0.5%")),
        ("bursts_us", [5000, 5000], ("bursts", "5 ms")),
        ("bursts_us", [1000, 8000], ("bursts", "1 ms to 8 ms")),
        ("qdisc_up", None, ("qdisc-up", "–")),
        ("seconds", "60", ("seconds", "60")),
    ],
)
def test_an_option_is_shown_by_its_name_and_with_its_unit(field: str, value: Any, words: tuple[str, str]) -> None:
    assert option_words(field, value) == words


def test_a_program_is_shown_by_its_name_and_another_build_of_it_differs() -> None:
    one = {"name": "program_quic", "client": "./quic send {address}", "files": {"quic": "5ebe9e87"}}
    builds = [option_words("programs", [it]) for it in (one, one | {"files": {"quic": "77b37385"}})]
    assert {(name, words.split()[0], len(words.split()[1])) for name, words in builds} == {
        ("programs", "program_quic", 8)
    }
    assert len(set(builds)) == 2
