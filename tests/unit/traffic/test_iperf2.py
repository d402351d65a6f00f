# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sojourn.hardware.machine.cache import BuildError
from sojourn.traffic import iperf2
from tests.refusals import refusal


def test_only_the_line_to_be_changed_is_changed() -> None:
    source = "    timestamp = Now();\n    if (m_ts_remote)\n        echoed_timestamp = 1;\n"
    assert iperf2.patched("prague_cc.cpp", source) == source.replace("if (m_ts_remote)", "if (m_r_prev_ts)")
    for other in ("", 2 * source):
        with refusal(BuildError, "damaged", "prague_cc.cpp", "if (m_ts_remote)"):
            iperf2.patched("prague_cc.cpp", other)


def test_its_largest_packet_is_the_links() -> None:
    words = iperf2.sender("./iperf", "10.0.0.1", 5201, 40000).split()
    assert int(words[words.index("-l") + 1]) + 2 * (20 + 8) == 1500
    assert words[words.index("-B") + 1] == "0.0.0.0:40000" and words[words.index("-p") + 1] == "5201"
