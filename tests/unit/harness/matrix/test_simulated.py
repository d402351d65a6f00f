# SPDX-License-Identifier: Apache-2.0
"""What the simulated lab refuses before a guest starts, and what it does not let pass as a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bottleneck import slots
from bottleneck.slots import Slots
from hardware.simulation import SimulationError
from harness.matrix import dumbbell, simulated
from harness.matrix.cell import Cell, Hop, ShortFlows
from scoring.transport import FLOWS


def cell(contender: str, hop: Hop | None = None) -> Cell:
    hops = (hop or dumbbell.bottleneck(50, "fq_codel flows 1"),)
    return Cell(name="a", flows=dumbbell.flows(["cubic", contender], 20), hops=hops, seconds=10)


def flows(ce: int | None) -> pl.DataFrame:
    rows = [(t, n, 1000, 20_000, 20_000, 10, 0, 0, 100, 7 if n == 0 else ce, None) for t in (1.0, 2.0) for n in (0, 1)]
    return pl.DataFrame(rows, schema=FLOWS, orient="row")


def test_a_trace_that_another_machine_has_not_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").write_text(slots.text([0, 3, 10]))
    asked = cell("cubic", dumbbell.slotted(Slots.of_file(tmp_path / "link"), "pie"))
    (tmp_path / "link").unlink()
    slots._times.cache_clear()
    with pytest.raises(SimulationError, match=rf"every machine needs its trace in one place: {tmp_path}/link: cannot"):
        simulated._bring(asked, tmp_path)


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
    assert "flow 1, " in (told := simulated.unheard(cell(contender), flows(0), queue(**marks))) and "marked 9" in told
    assert simulated.unheard(cell(contender), flows(1), queue(**marks)) == ""


def test_a_prague_that_could_hear_of_none_is_one() -> None:
    marked = queue(ecn_mark=9)
    assert simulated.unheard(cell("prague"), flows(0), queue(ecn_mark=0)) == ""
    assert simulated.unheard(cell("prague"), flows(0), queue("wan", ecn_mark=9)) == "", "acknowledgements were marked"
    assert simulated.unheard(cell("prague"), flows(None), marked) == "", "iperf3 does not tell"
    assert simulated.unheard(cell("dctcp"), flows(0), marked) == ""
    mangled = dumbbell.bottleneck(50, "fq_codel flows 1").model_copy(update={"mangle": "ect1-to-not-ect"})
    assert simulated.unheard(cell("prague", mangled), flows(0), marked) == ""
    late = cell("cubic-accecn").model_copy(update={"tunnel": "ipsec"})
    assert simulated.unheard(late, flows(0), marked) == "", "anti-replay may drop what was marked"


def test_short_flows_alone_are_not_for_iperf3(tmp_path: Path) -> None:
    alone = Cell(name="alone", hops=(Hop(),), seconds=10, short_flows=ShortFlows(rtt_us=0))
    with pytest.raises(
        SimulationError, match="cell alone: --endpoints=iperf3 sends bulk flows, and this cell has none"
    ):
        simulated.run_cell(alone, tmp_path, seed=1, endpoints="iperf3")


STATE = """src 10.43.0.1 dst 10.43.1.2
\tproto esp spi 0x00000100(256) reqid 1(0x00000001) mode tunnel
\treplay-window %s seq 0x00000000 flag  (0x00000000)
%s\tlifetime current:
\t  308716(bytes), 5493(packets)
\t  add 1970-01-01 00:00:01 use 1970-01-01 00:00:02
\tstats:
\t  replay-window 17 replay 2 failed 0
"""


def test_a_replay_window_is_read_back_with_what_it_dropped() -> None:
    esn = "\tanti-replay esn context:\n\t seq-hi 0x0, seq 0x1575\n\t replay_window 4096, bitmap-length 128\n"
    assert simulated.replay_counters(STATE % (0, esn)) == (4096, 5493, 17, 2)
    assert simulated.replay_counters(STATE % (32, "")) == (32, 5493, 17, 2)
    with pytest.raises(SimulationError, match="no state of ESP"):
        simulated.replay_counters("")
