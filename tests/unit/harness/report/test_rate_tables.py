# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from math import exp
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sojourn.harness.report.rate_tables import rigs_table, shares_table
from sojourn.harness.report.stamps import (
    PaperError,
)
from sojourn.harness.store.loaded import CellRun
from tests.refusals import refusal


def cell_run(rate_mbps: int, rtt_us: int, seed: int, prague: float, *, drawn: bool) -> CellRun:
    flows = [{"contender": "prague", "rtt_us": rtt_us}]
    hop = {"down": {"rate_bps": rate_mbps * 10**6, "qdisc": "dualpi2"}}
    manifest: Any = SimpleNamespace(drawn={"RTT": "1 %"} if drawn else {}, seed=seed)
    scores = {"flows": [{"d_ss_mbps": prague}, {"d_ss_mbps": 1.0}]}
    return CellRun(Path("run"), {"cell": {"flows": flows, "hops": [hop]}}, manifest, scores)


def test_the_table_of_rigs_has_a_row_per_rate_and_takes_the_rigs_in_order_of_their_seeds() -> None:
    runs = []
    for rate in (20, 10):
        for rtt in (19_000, 21_000):
            runs += [cell_run(rate, rtt, seed, exp(rtt / 20_000 - 1 + seed / 1000), drawn=False) for seed in (1, 2)]
        # A drift over the seeds: only series of consecutive ones leave the mean out.
        runs += [cell_run(rate, 20_000, seed, exp(seed), drawn=True) for seed in reversed(range(1, 41))]
    lines = rigs_table(runs).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 10 Mbit/s", "| 20 Mbit/s"]
    _, rtts, within, rigs, exact, *covers = lines[2].strip("| ").split(" | ")
    assert (rtts, within, rigs) == ("0.071", "0.001", "11.690")
    assert exact == "0.00" and 0 < float(covers[0]) < 0.4 and covers[-1] == "0.00"
    with refusal(PaperError, "missing", "10 Mbit/s", "8 rigs"):
        rigs_table([run for run in runs if not run.manifest.drawn])


def test_the_table_of_shares_has_rates_by_queue_and_the_ratio_with_its_interval() -> None:
    runs = [cell_run(rate, 20_000, seed, rate * 1.1**seed, drawn=True) for rate in (20, 5) for seed in range(1, 7)]
    for run in runs[6:]:
        run.options["cell"]["hops"][0]["down"]["qdisc"] = "dualpi2 min_qlen_step 1"
    head, _, slow, fast = shares_table(runs).splitlines()
    assert head == "| rate | `dualpi2` | `dualpi2 min_qlen_step 1` |"
    # By hand: the mean of 1.1, …, 1.1^6 is 1.414, their geometric mean 1.1^3.5 = 1.396.
    assert slow.startswith("| 5 Mbit/s | – | 7.07 : 1.00<br>× 6.98 (")
    assert fast.startswith("| 20 Mbit/s | 28.29 : 1.00<br>× 27.92 (") and fast.endswith("| – |")
    low, high = (float(it) for it in fast.split("(")[1].split(")")[0].split(" to "))
    assert 20 < low < 27.92 < high < 36


def test_a_flow_that_got_nothing_has_a_rate_and_no_share() -> None:
    runs = [cell_run(20, 20_000, seed, 0, drawn=True) for seed in (1, 2)]
    assert shares_table(runs).splitlines()[-1] == "| 20 Mbit/s | 0.00 : 1.00 |"
    with refusal(PaperError, "invalid-run", "no ratio"):
        rigs_table(runs)
