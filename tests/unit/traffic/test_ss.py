# SPDX-License-Identifier: Apache-2.0
"""The parser on output of iproute2 7.2's ss: six flows at 20 Mbit/s, 20 ms, dualpi2, Linux 7.2."""

from __future__ import annotations

import pytest

from sojourn.traffic import ss

# ruff: noqa: E501
LINES = {
    "cubic": """ESTAB 0      181000 10.42.2.20:40001 10.42.1.20:5201 timer:(on,040ms,0) ts sack ecn cubic wscale:10,10 rto:240 rtt:30.37/0.823 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:49 ssthresh:34 bytes_sent:8369477 bytes_acked:8298526 segs_out:5783 segs_in:3072 data_segs_out:5781 send 18690023bps lastsnd:30 lastrcv:3660 lastack:30 pacing_rate 22427472bps delivery_rate 18127136bps delivered:5733 delivered_ce:238 busy:3650ms unacked:49 rcv_space:14480 rcv_ssthresh:64088 notsent:110048 minrtt:20.236 snd_wnd:420864 rcv_wnd:64512""",
    "prague": """ESTAB 0      127804 10.42.2.20:40002 10.42.1.20:5201 timer:(on,050ms,0) ts sack ecn ecnseen prague wscale:10,10 rto:230 rtt:22.847/0.948 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:30 ssthresh:30 bytes_sent:5959437 bytes_acked:5923538 segs_out:4153 segs_in:2114 data_segs_out:4151 dctcp:(ce_state:1,alpha:100,ab_ecn:0,ab_tot:5792) send 15210750bps lastrcv:3860 pacing_rate 15210744bps delivery_rate 12501840bps delivered:4127 delivered_ce:333 busy:3850ms unacked:25 rcv_space:14480 rcv_ssthresh:64088 notsent:91904 minrtt:20.152 snd_wnd:117760 rcv_wnd:64512""",
    "dctcp": """ESTAB 0      858664 10.42.2.20:40003 10.42.1.20:5201 timer:(on,060ms,0) ts sack ecn dctcp wscale:10,10 rto:300 rtt:32.105/3.742 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:35 ssthresh:34 bytes_sent:7864125 bytes_retrans:68056 bytes_acked:7745390 segs_out:5434 segs_in:2997 data_segs_out:5432 dctcp:(ce_state:0,alpha:0,ab_ecn:0,ab_tot:21720) send 12628563bps lastsnd:10 lastrcv:3830 lastack:10 pacing_rate 15154096bps delivery_rate 12601368bps delivered:5351 delivered_ce:125 busy:3830ms unacked:35 retrans:0/47 rcv_space:14480 rcv_ssthresh:64088 notsent:807984 minrtt:20 snd_wnd:1413120 rcv_wnd:64512""",
    "bbr": """ESTAB 0      970160 10.42.2.20:40004 10.42.1.20:5201 timer:(on,250ms,0) ts sack bbr wscale:10,10 rto:260 rtt:56.713/3.459 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:90 ssthresh:46 bytes_sent:7798965 bytes_retrans:181000 bytes_acked:7434070 segs_out:5389 segs_in:3445 data_segs_out:5387 bbr:(bw:19120216bps,mrtt:20,pacing_gain:1,cwnd_gain:2) send 18383087bps lastsnd:10 lastrcv:3650 lastack:10 pacing_rate 18929016bps delivery_rate 15087696bps delivered:5180 busy:3650ms rwnd_limited:20ms(0.5%) unacked:127 retrans:3/125 lost:3 sacked:44 rcv_space:14480 rcv_ssthresh:64088 notsent:786264 minrtt:20 snd_wnd:4897792 rcv_wnd:64512""",
    "reno": """ESTAB 0      278016 10.42.2.20:40005 10.42.1.20:5201 timer:(on,060ms,0) ts sack ecn reno wscale:10,10 rto:240 rtt:32.906/2.185 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:51 ssthresh:18 bytes_sent:6950437 bytes_acked:6876590 segs_out:4803 segs_in:2296 data_segs_out:4801 send 17953686bps lastsnd:10 lastrcv:3650 lastack:10 pacing_rate 21544096bps delivery_rate 18903392bps delivered:4751 delivered_ce:199 busy:3650ms unacked:51 rcv_space:14480 rcv_ssthresh:64088 notsent:204168 minrtt:20.149 snd_wnd:225280 rcv_wnd:64512""",
    "cubic-noecn": """ESTAB 0      325888 10.42.2.20:40006 10.42.1.20:5201 timer:(on,090ms,0) ts sack cubic wscale:10,10 rto:250 rtt:43.391/4.865 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:56 ssthresh:30 bytes_sent:6989445 bytes_retrans:27512 bytes_acked:6880846 segs_out:4830 segs_in:2332 data_segs_out:4828 send 14950197bps lastrcv:3700 pacing_rate 17940232bps delivery_rate 13903928bps delivered:4754 busy:3700ms rwnd_limited:10ms(0.3%) unacked:56 retrans:0/19 rcv_space:14480 rcv_ssthresh:64088 notsent:244800 minrtt:20.171 snd_wnd:644096 rcv_wnd:64512""",
}


def test_prague() -> None:
    row = ss.parse(LINES["prague"])
    assert row is not None
    assert row["flow"] == "10.42.2.20:40002>10.42.1.20:5201"
    assert (row["cc"], row["ecn"], row["ecnseen"]) == ("prague", True, True)
    assert (row["cwnd"], row["mss"], row["rtt_ms"], row["minrtt_ms"]) == (30, 1448, 22.847, 20.152)
    assert (row["delivery_rate_bps"], row["pacing_rate_bps"]) == (12_501_840, 15_210_744)
    assert (row["delivered"], row["delivered_ce"], row["retrans"]) == (4127, 333, 0)
    assert row["alpha"] == pytest.approx(100 / 1024)


def test_every_contender_shows_its_congestion_control() -> None:
    for name, line in LINES.items():
        row = ss.parse(line)
        assert row is not None and row["cc"] == name.removesuffix("-noecn")
        assert row["ecn"] == (name not in ("bbr", "cubic-noecn"))
        assert (row["alpha"] is None) == (name not in ("prague", "dctcp"))
        assert row["cwnd"] > 20 and 20 < row["rtt_ms"] < 60 and row["delivery_rate_bps"] > 12e6


def test_retransmissions_are_the_total() -> None:
    row = ss.parse(LINES["bbr"])
    assert row is not None and (row["retrans"], row["lost"], row["unacked"]) == (125, 3, 127)


def test_the_time_in_which_a_host_held_a_flow_back() -> None:
    rows = [ss.parse(LINES[name]) for name in ("bbr", "prague")]
    times = [[row and row[f"{what}_ms"] for what in ("busy", "rwnd_limited", "sndbuf_limited")] for row in rows]
    assert times == [[3650, 20, 0], [3850, 0, 0]]


def test_what_left_when_there_was_no_more_to_send_is_told() -> None:
    """iproute2's order: delivered, delivered_ce, app_limited, busy."""
    starved = LINES["cubic"].replace("delivered_ce:238 ", "delivered_ce:238 app_limited ")
    rows = [ss.parse(line) for line in (LINES["cubic"], starved)]
    assert [row and (row["app_limited"], row["notsent"], row["busy_ms"]) for row in rows] == [
        (False, 110048, 3650), (True, 110048, 3650)
    ]  # fmt: skip


def test_lines_without_an_open_socket() -> None:
    assert ss.parse("") is None
    assert ss.parse("SYN-SENT 0 1 10.42.2.20:40001 10.42.1.20:5201 timer:(on,980ms,0) cubic rto:1000") is None
