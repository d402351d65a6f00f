# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sojourn.traffic.nstat import counted, counters

TEXT = """\
Ip: Forwarding DefaultTTL InReceives
Ip: 1 64 12
Tcp: RtoAlgorithm RetransSegs InErrs
Tcp: 1 3 0
TcpExt: DelayedACKs TCPLossProbes
TcpExt: 41 2
IpExt: InCEPkts InECT1Pkts
IpExt: 7 0
Ip6InReceives                   \t5
Ip6InCEPkts                     \t0
"""


def test_counters_have_the_names_that_nstat_gives_and_settings_are_none() -> None:
    assert counters(TEXT) == {
        "IpInReceives": 12, "TcpRetransSegs": 3, "TcpExtDelayedACKs": 41, "TcpExtTCPLossProbes": 2, "IpExtInCEPkts": 7,
        "Ip6InReceives": 5,
    }  # fmt: skip
    assert counters("") == {}


def test_what_a_run_counted_is_the_difference_of_two_looks() -> None:
    assert counted({"a": 5, "b": 2}, {"a": 7, "b": 2, "c": 1}) == {"a": 2, "c": 1}
