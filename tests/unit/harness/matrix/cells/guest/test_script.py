# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix.cells.guest import script
from sojourn.traffic.spec import Flow
from sojourn.traffic.tso import SWITCH_2020
from tests.unit.harness.matrix.cells.guest.cells import SHAPED, cell


def test_a_mangler_may_be_for_some_flows() -> None:
    text = script.script(cell(0, 0, hops=[Hop(mangle="to-ect1", mangled_flows=[1]), Hop(down=SHAPED)]), 1)
    assert 'iifname "wan" tcp sport { 40001 } tcp flags & syn == 0 ip ecn != ce ip ecn set ect1;' in text
    text = script.script(cell(0, 0, hops=[Hop(mangle="to-not-ect", mangled_flows=[0]), Hop(down=SHAPED)]), 1)
    assert 'iifname "wan" tcp sport { 40000 } ip ecn set not-ect;' in text


def test_a_hosts_flows_may_share_a_queue_and_a_port_be_chosen() -> None:
    flows = [Flow(contender="cubic", rtt_us=0), Flow(contender="cubic", rtt_us=0, from_port=40777)]
    hop = Hop(
        down=SHAPED.model_copy(update={"qdisc": parse_qdisc("fq_codel")}),
        host_queue=True,
        mangle="to-ect1",
        mangled_flows=[1],
    )
    text = script.script(cell(flows=flows, hops=[hop]), 1)
    assert "filter add dev lan parent 10: protocol ip prio 1 flower dst_ip 10.42.1.20 classid 10:1" in text
    assert "tcp sport { 40777 }" in text and " 5202 40777 cubic " in text


def test_iperf3_cannot_mix_flows_with_and_without_ecn_on_a_host() -> None:
    flows = [Flow(contender=name, rtt_us=0) for name in ("cubic", "cubic-noecn")]
    with pytest.raises(ValueError, match="with and without ECN"):
        script.script(cell(flows=flows), 1, iperf3=True)
    assert "iperf3" not in script.script(cell(flows=flows), 1)


def test_iperf3_runs_as_long_as_its_flow() -> None:
    flows = [Flow(contender="cubic", rtt_us=0, start_s=at, stop_s=stop) for at, stop in ((0, None), (0.1, 3.1))]
    text = script.script(cell(flows=flows, seconds=120), 1, iperf3=True)
    assert " -t 120 " in text and " -t 3 " in text


def test_programs_draw_only_what_the_seed_decides() -> None:
    quic = cell(flows=[Flow(contender="quic-bbr", rtt_us=0)], per_packet=True)
    assert "export OPENSSL_ia32cap=" in script.script(quic, 1)
    assert "OPENSSL" not in script.script(cell(0), 1)


def test_tso_is_that_of_2020_where_asked() -> None:
    assert f"echo 1 >{SWITCH_2020}\n" in script.script(cell(0, tso_2020=True), 1)
    assert SWITCH_2020 not in script.script(cell(0), 1)
