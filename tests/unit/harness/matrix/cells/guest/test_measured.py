# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.guest import measured
from sojourn.scoring.schema.columns import FLOWS
from tests.refusals import refusal

STATE = """src 10.43.0.1 dst 10.43.1.2
\tproto esp spi 0x00000100(256) reqid 1(0x00000001) mode tunnel
\treplay-window %s seq 0x00000000 flag  (0x00000000)
%s\tlifetime current:
\t  308716(bytes), 5493(packets)
\t  add 1970-01-01 00:00:01 use 1970-01-01 00:00:02
\tstats:
\t  replay-window 17 replay 2 failed 0
"""


def cell(contender: str, hop: Hop | None = None) -> Cell:
    hops = (hop or dumbbell.bottleneck(50, "fq_codel flows 1"),)
    return Cell(name="a", flows=dumbbell.flows(["cubic", contender], 20), hops=hops, seconds=10)


def flows(ce: int | None) -> pl.DataFrame:
    rows = [(t, n, 1000, 20_000, 20_000, 10, 0, 0, 100, 7 if n == 0 else ce, None) for t in (1.0, 2.0) for n in (0, 1)]
    return pl.DataFrame(rows, schema=FLOWS, orient="row")


def queue(dev: str = "lan", **counters: Any) -> list[dict[str, Any]]:
    return [{"t": 2.0, "hop": 0, "dev": dev, "qdiscs": [{"kind": "htb"}, {"kind": "fq_codel", **counters}]}]


@pytest.mark.parametrize(
    "marks",
    [
        {"ecn_mark": 9},
        {"kind": "dualpi2", "ecn-mark": 9, "step-mark": 4},
        {"kind": "cake", "tins": [{"ecn_mark": 2}, {"ecn_mark": 7}]},
    ],
)
@pytest.mark.parametrize("contender", ["prague", "prague-2020"])
def test_a_prague_that_hears_of_no_mark_is_no_result(contender: str, marks: dict[str, Any]) -> None:
    assert "flow 1, " in (told := measured.unheard(cell(contender), flows(0), queue(**marks))) and "marked 9" in told
    assert measured.unheard(cell(contender), flows(1), queue(**marks)) == ""


def test_a_prague_that_could_hear_of_none_is_one() -> None:
    marked = queue(ecn_mark=9)
    paced = cell("prague")
    first, second = paced.flows
    paced = paced.model_copy(update={"flows": (first, second.model_copy(update={"pacing_bps": 5_000_000}))})
    assert measured.unheard(paced, flows(0), marked) == "", "its own queue may stay empty"
    assert measured.unheard(cell("prague"), flows(0), queue(ecn_mark=0)) == ""
    assert measured.unheard(cell("prague"), flows(0), queue("wan", ecn_mark=9)) == "", "acknowledgements were marked"
    assert measured.unheard(cell("prague"), flows(None), marked) == "", "iperf3 does not tell"
    assert measured.unheard(cell("dctcp"), flows(0), marked) == ""
    mangled = dumbbell.bottleneck(50, "fq_codel flows 1").model_copy(update={"mangle": "ect1-to-not-ect"})
    assert measured.unheard(cell("prague", mangled), flows(0), marked) == ""
    late = cell("cubic-accecn").model_copy(update={"tunnel": "ipsec"})
    assert measured.unheard(late, flows(0), marked) == "", "anti-replay may drop what was marked"


def test_a_replay_window_is_read_back_with_what_it_dropped() -> None:
    esn = "\tanti-replay esn context:\n\t seq-hi 0x0, seq 0x1575\n\t replay_window 4096, bitmap-length 128\n"
    assert measured.replay_counters(STATE % (0, esn)) == (4096, 5493, 17, 2)
    assert measured.replay_counters(STATE % (32, "")) == (32, 5493, 17, 2)
    with refusal(SimulationError, "damaged", "ESP"):
        measured.replay_counters("")


def test_queue_samples_are_told_by_hop_and_device() -> None:
    qdiscs = [{"kind": "htb", "dev": "lan"}, {"kind": "netem", "dev": "wan"}, {"kind": "noqueue", "dev": "lo"}]
    lines = list(measured.queues(f"0.000000 hop1 {json.dumps(qdiscs)}\n"))
    assert lines == [
        {"t": 0.0, "hop": 1, "dev": "lan", "qdiscs": qdiscs[:1]},
        {"t": 0.0, "hop": 1, "dev": "wan", "qdiscs": qdiscs[1:2]},
    ]


def test_iperf3_intervals_become_rows() -> None:
    state = {"rtt": 20_500, "retransmits": 2, "snd_cwnd": 14_480}
    sender = {"intervals": [{"streams": [state]}, {"streams": [state | {"rtt": 20_100}]}]}
    receiver = {"intervals": [{"sum": {"end": 0.1}, "streams": [{"bytes": 1000}]},
                              {"sum": {"end": 0.2}, "streams": [{"bytes": 500}]}]}  # fmt: skip
    assert list(measured.iperf3_rows(3, 1.5, 1448, sender, receiver)) == [
        "1.600000,3,1000,20500,20500,10,2,,,,",
        "1.700000,3,1500,20100,20100,10,4,,,,",
    ]
