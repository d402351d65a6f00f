# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.harm_tables import harm_table, map_table, overview_table

Series = Callable[..., list[Path]]


def test_the_table_of_an_experiment_has_harm_bar_and_difference(series: Series) -> None:
    folder = series([1, 2, 3, 4, 5])[0].parent
    (one,) = experiments(find_runs([folder]))
    lines = harm_table(one).splitlines()
    assert lines[0] == "|  | alone | with cubic, the bar | with prague |"
    # By hand: 720 lines alone, 36 (10 - stalled) with Prague, so harm 0.5 + stalled / 20.
    assert lines[2] == "| harm | – | 0 | 0.65 (0.56 to 0.74) |"
    assert lines[-1].startswith("Difference in harm: prague − cubic: 0.65 (")


def test_the_table_of_a_map_has_a_plane_per_queue_and_contender(series: Series) -> None:
    for rtt_us in (10_000, 40_000):
        for rate in (5_000_000, 10_000_000):
            folder = series([rtt_us / 10_000], rtt_us=rtt_us, rate_down_bps=rate, rate_up_bps=rate)[0].parent
    text = map_table(experiments(find_runs([folder])))
    assert "**fq_codel flows 1, with prague**" in text
    assert "| rate ↓ rtt → | 10 ms | 40 ms |" in text and "| 5 Mbit/s | 0.55 | 0.70 |" in text


def test_the_table_of_a_map_without_a_sweep_has_a_row_per_queue(series: Series) -> None:
    series([1])
    folder = series([3], qdisc="dualpi2")[0].parent
    assert map_table(experiments(find_runs([folder]))).splitlines() == [
        "| queue (o2tv, 10 Mbit/s, 20 ms) | cubic | prague |",
        "| --- | --- | --- |",
        "| dualpi2 | 0.00 | 0.65 |",
        "| fq_codel flows 1 | 0.00 | 0.55 |",
    ]


def test_the_overview_has_a_row_per_queue_and_contender_the_worst_first(series: Series) -> None:
    series([1, 2, 3, 4, 5])
    folder = series([6, 7, 8, 9, 9], qdisc="dualpi2")[0].parent
    lines = overview_table(experiments(find_runs([folder]))).splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| `dualpi2`", "prague"],
        ["| `fq_codel flows 1`", "prague"],
        ["| `fq_codel flows 1`", "cubic"],
        ["| `dualpi2`", "cubic"],
    ]
    # By hand, as in the table of the experiment.
    assert "| 0.65 (0.56 to 0.74) |" in lines[3] and lines[3].count("|") == lines[0].count("|")
