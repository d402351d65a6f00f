# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from math import inf
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.delivery_trace import DeliveryTrace
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.cell_run import CellJob, scoring_digest
from sojourn.harness.matrix.matrix import (
    Bias,
    Chart,
    Column,
    Contrast,
    Correlation,
    Difference,
    Expectation,
    Matrix,
    Reference,
    Summary,
)
from sojourn.harness.matrix.pages import flent, matrix_page
from sojourn.harness.matrix.pages.cell_page import cell_page, series
from sojourn.harness.matrix.results import cell_folder, results, run_folder, seeds_text
from sojourn.scoring.schema.columns import FLOWS, PACKETS, PROBES, SHORT
from sojourn.scoring.transport.cell_scores import score
from sojourn.scoring.transport.completion import completion
from sojourn.scoring.transport.delays import probe_scores
from sojourn.scoring.transport.frames import CellFrames
from sojourn.traffic.spec import Flow, Probe, ShortFlows
from tests.links import broken_links
from tests.refusals import refusal
from tests.unit.harness.sealed import seal

SECONDS = 10


def bulk(name: str) -> Cell:
    return Cell(
        name=name,
        flows=dumbbell.flows(["prague", "cubic"], 20),
        hops=(dumbbell.bottleneck(50, "fq_codel flows 1"),),
        seconds=SECONDS,
        probes=(Probe(rtt_us=20_000),),
        sample_s=0.5,
    )


def short(name: str) -> Cell:
    flow = (Flow(contender="cubic", rtt_us=20_000),) if name != "alone" else ()
    hop = dumbbell.bottleneck(50, "fq_codel flows 1")
    return Cell(name=name, flows=flow, hops=(hop,), seconds=SECONDS, short_flows=ShortFlows(rtt_us=20_000))


NEEDY = Cell(name="needy", flows=dumbbell.flows(["reno"], 20), hops=(Hop(),), seconds=5, needs="the SCE kernel")
MATRIX = Matrix(
    name="m",
    title="A matrix",
    source="a document",
    cells=(bulk("near"), bulk("far <1>"), bulk("mid"), short("alone"), short("beside"), NEEDY),
    window_s=6,
    columns=(
        Column(head="Prague Mbit/s", metric="flows.0.d_ss_mbps"),
        Column(head="harm", metric="harm.median"),
    ),
    expectations=(Expectation(metric="ratio", low=5, cells="near|far"),),
    reference=Reference(
        csv="x.csv",
        published={
            "near": {"flows.0.d_ss_mbps": 40},
            "far <1>": {"flows.0.d_ss_mbps": 20},
            "mid": {"flows.0.d_ss_mbps": 30},
        },
        tolerance={"flows.0.d_ss_mbps": 0.03},
    ),
    charts=(
        Chart(
            title="rates",
            unit="Mbit/s",
            series={"prague": "flows.0.d_ss_mbps", "cubic": "flows.1.d_ss_mbps"},
            cells={"A": "near", "B": "far <1>"},
        ),
        Chart(title="delays", unit="ms", series={"": "probes.0.ccdf"}, cells={"A": "near"}, ccdf=True),
        Chart(title="of nothing", unit="ms", series={"": "probes.0.ccdf"}, cells={"N": "needy"}, ccdf=True),
    ),
    solo={"beside": "alone"},
)
# Prague's Mbit/s of two seeds, a completion time of one.
RATES = {"near": (40.0, 40.4), "far <1>": (10.0, 10.0), "mid": (30.0, 30.0)}
TIMES = {"alone": 1.0, "beside": 4.0}


INPUTS = "these"


def describe(run: Path, cell: Cell, seed: int, **cache: str) -> None:
    scoring = scoring_digest(CellJob(cell, seed, MATRIX.window_s, MATRIX.tail_s, INPUTS))
    seal(run, cell=cell.name, seed=seed, cache={"inputs": INPUTS, "scoring": scoring} | cache)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for cell in MATRIX.runnable:
        for seed in (1, 2):
            run = run_folder(tmp_path, cell, seed)
            run.mkdir(parents=True)
            rates = (RATES[cell.name][seed - 1], 2.0) if cell.name in RATES else ((5.0,) if cell.flows else ())
            rows = [
                (t / 2, n, int(mbps * t / 2 * 1e6 / 8), 25_000 + 100 * t, 20_000, 10, 0, 0, 100 * t, t, None)
                for t in range(1, 2 * SECONDS + 1)
                for n, mbps in enumerate(rates)
            ]
            flows = pl.DataFrame(rows, schema=FLOWS, orient="row")
            flows.write_csv(run / "flows.csv")
            probes = pl.DataFrame([(0.5, 0, 11_000.0), (1.0, 0, 14_000.0)], schema=PROBES, orient="row")
            probes.write_csv(run / "probes.csv")
            times = pl.DataFrame([(0.1, 1000, TIMES.get(cell.name))], schema=SHORT, orient="row")
            frames = CellFrames(flows, probes if cell.probes else None, times)
            scores = score(cell, frames, window_s=6, tail_s=2).document()
            (run / "scores.json").write_text(json.dumps(scores))
            (run / "cell.json").write_text(json.dumps({"cell": cell.model_dump(mode="json"), "seed": seed}))
            describe(run, cell, seed)
    return tmp_path


def test_the_terminal_says_what_stands_in_brackets(folder: Path) -> None:
    assert "in brackets: the published figure" in matrix_page.table(results(MATRIX, folder, INPUTS)).note
    alone = MATRIX.model_copy(update={"reference": None})
    assert matrix_page.table(results(alone, folder, INPUTS)).note == ""


def test_of_one_seed_no_mean_is_told() -> None:
    assert (seeds_text([3]), seeds_text([1, 2])) == ("Seed 3", "Mean of the seeds 1, 2")


def test_the_report_stands_ours_beside_theirs(folder: Path) -> None:
    page = matrix_page.write(results(MATRIX, folder, INPUTS)).read_text()
    (row,) = re.findall(r"<tr><th scope=\"row\">Prague Mbit/s</th>(.*?)</tr>", page)
    # By hand, of 40.2, 10 and 30 beside 40, 20 and 30.
    told = ["3", "2", "3%", "1.000", "0.983", "0.000", "0.005", "far &lt;1&gt; (x 0.5), near (x 1.01), mid (x 1)"]
    assert re.findall(r"<td[^>]*>(.*?)</td>", row) == told
    assert [page.count(f'<circle class="bar dot {kind}"') for kind in ("who-other-1", "hurt hollow")] == [2, 1]
    (line,) = (
        line for line in matrix_page.summary(results(MATRIX, folder, INPUTS)) if line.startswith("Prague Mbit/s")
    )
    assert "3 cells; 2 within 3% of the published; rank correlation 1.000" in line
    assert line.endswith(
        "median log ratio 0.000; median absolute log ratio 0.005; P90 0.693; 67% of cells within 16%; "
        "furthest: far <1> (x 0.5), near (x 1.01), mid (x 1)"
    )
    assert "<li>Prague Mbit/s: 2 of 3 cells are within 3% of the published figure</li>" in page
    assert "5 of 5 cells, 10 runs" in page and "1 cell needs the SCE kernel" in page
    # Means of the seeds, their range, the ratio of the cell that disagrees.
    for text in ("40.20", "40.00–40.40", "0.500", "far &lt;1&gt;", "harm"):
        assert text in page, text
    assert "0.75" in page, "harm of 4 s against 1 s alone"
    assert "<b>all cells run</b>" in page and "not as expected" not in page
    assert page.count("<figure>") == 3, "a chart of nothing is left out, the scatter plot is there"
    assert not re.search(r'(src|href)="(https?:)?//', page)


@pytest.mark.parametrize("other", ["inputs", "scoring", "flows.csv", "scores.json"])
def test_runs_that_do_not_compare_are_left_out_and_counted(folder: Path, other: str) -> None:
    cell = MATRIX.cells[0]
    run = run_folder(folder, cell, 2)
    if (run / other).exists():
        (run / other).write_text((run / other).read_text() + "\n")
    else:
        describe(run, cell, 2, **{other: "another"})
    page = matrix_page.write(results(MATRIX, folder, INPUTS)).read_text()
    assert "1 runs with another kernel, guest, source or scoring, or changed, are excluded" in page
    assert "40.00–40.40" not in page and "5 of 5 cells, 9 runs" in page


@pytest.mark.parametrize(("least", "met"), [(0.98, True), (0.99, False)])
def test_a_target_of_the_whole_matrix_is_told_and_judged(folder: Path, least: float, met: bool) -> None:
    assert MATRIX.reference
    asked = Correlation(metric="flows.0.d_ss_mbps", kind="pearson", least=least)
    reference = MATRIX.reference.model_copy(update={"correlations": (asked,)})
    whole = MATRIX.model_copy(update={"reference": reference})
    ((told, found),) = results(whole, folder, INPUTS).agreements()
    assert found is met and told.startswith("Prague Mbit/s: Pearson's correlation 0.98")
    assert told.endswith(f"over 3 cells, at least {least:g}: {'met' if met else 'NOT met'}")
    page = matrix_page.write(results(whole, folder, INPUTS)).read_text()
    assert ("not as expected" in page) is not met
    for seed in (1, 2):
        describe(run_folder(folder, MATRIX.cells[0], seed), MATRIX.cells[0], seed, inputs="others")
    ((told, found),) = results(whole, folder, INPUTS).agreements()
    assert found is None and told.endswith("required of all 3")


@pytest.mark.parametrize(("most", "met"), [(0.11, True), (0.10, False)])
def test_a_bias_that_all_cells_share_is_judged(folder: Path, most: float, met: bool) -> None:
    assert MATRIX.reference
    # Ours are 40.2, 10 and 30: a tenth above, a half below, a ninth above.
    metric = "flows.0.d_ss_mbps"
    published = {cell: {metric: theirs} for cell, theirs in {"near": 36.0, "far <1>": 20.0, "mid": 27.0}.items()}
    asked = Bias(metric=metric, most=most)
    reference = MATRIX.reference.model_copy(update={"published": published, "biases": (asked,)})
    ((told, found),) = results(MATRIX.model_copy(update={"reference": reference}), folder, INPUTS).agreements()
    verdict = "met" if met else "NOT met"
    assert found is met
    assert told == f"Prague Mbit/s: median log ratio 0.1054 over 3 cells, at most ±{most:g}: {verdict}"


@pytest.mark.parametrize(
    ("contrast", "met", "told"),
    [
        ({"cell": "near", "reference": "mid", "low": 1.3}, True, "a: 1.34, at least 1.3: met"),
        (
            {"cell": "near", "reference": "mid", "kind": "difference", "high": 10},
            False,
            "a: 10.20, at most 10: NOT met",
        ),
        ({"cell": "near", "reference": "mid"}, None, "a: 1.34"),
        ({"cell": "near", "reference": "needy", "low": 1}, None, "a: not run"),
    ],
)
def test_a_contrast_of_two_cells_is_told_and_judged(
    folder: Path, contrast: dict[str, Any], met: bool | None, told: str
) -> None:
    asked = Contrast(title="a", metric="flows.0.d_ss_mbps", **contrast)
    matrix = MATRIX.model_copy(update={"contrasts": (asked,)})
    found = results(matrix, folder, INPUTS)
    assert found.contrasts() == [(told, met)] and found.missed() == ([told] if met is False else [])
    page = matrix_page.write(results(matrix, folder, INPUTS)).read_text()
    assert told in page and ("not as expected" in page) is (met is False)


def test_a_flow_that_never_ended_is_infinitely_late_and_all_harm(folder: Path) -> None:
    for seed in (1, 2):
        run = run_folder(folder, MATRIX.cells[4], seed)
        scores = json.loads((run / "scores.json").read_text())
        scores["short"] = completion(pl.DataFrame([(0.1, 1000, None)], schema=SHORT, orient="row")).document()
        (run / "scores.json").write_text(json.dumps(scores, allow_nan=False))
        describe(run, MATRIX.cells[4], seed)
    found = results(MATRIX, folder, INPUTS)
    assert found.values("beside", "short.median_s") == [inf, inf] and found.values("beside", "harm.median") == [1, 1]
    metric = "short.median_s"
    chart = Chart(title="times", unit="s", series={"": metric}, cells={"A": "alone", "B": "beside"})
    columns = (*MATRIX.columns, Column(head="median s", metric=metric))
    text = matrix_page.write(
        results(MATRIX.model_copy(update={"columns": columns, "charts": (chart,)}), folder, INPUTS)
    ).read_text()
    assert "unfinished" in text and "∞ (lost)" not in text and "nan" not in text
    page = run_folder(folder, MATRIX.cells[4], 1).parent / "cell.html"
    assert "unfinished" in page.read_text()


def test_a_figure_without_a_tolerance_has_its_median_ratio_in_the_headlines(folder: Path) -> None:
    assert MATRIX.reference
    free = MATRIX.model_copy(
        update={"reference": Reference(csv="x.csv", published=MATRIX.reference.published, tolerance={})}
    )
    page = matrix_page.write(results(free, folder, INPUTS)).read_text()
    # By hand, of 40.2, 10 and 30 next to 40, 20 and 30.
    assert "<li>Prague Mbit/s: 1.00 times the published figure (median of 3 cells)</li>" in page


def test_the_page_of_a_cell_begins_with_what_happened_and_links_to_the_files_that_are_there(folder: Path) -> None:
    matrix_page.write(results(MATRIX, folder, INPUTS))
    page = run_folder(folder, MATRIX.cells[0], 1).parent / "cell.html"
    text = page.read_text()
    assert "D_SS in Mbit/s: Prague 40.20, CUBIC 2.00; P99 of the probes in ms: Not-ECT " in text
    assert "2 runs, 5 needed for a result." in text
    assert all(f'href="seed-{seed}/{name}"' in text for seed in (1, 2) for name in ("flows.csv", "manifest.json"))
    assert "packets.csv" not in text and broken_links(page) == []


def test_a_cell_tells_its_queues_marks_of_ce_and_of_sce(folder: Path) -> None:
    run = run_folder(folder, MATRIX.cells[0], 1)
    counts = {"packets": 7, "ecn_mark": 5}
    queues = [{"kind": "pie", **counts}, {"kind": "deltic", **counts, "sce_mark": 31}]
    (run / "queues.jsonl").write_text(json.dumps({"hop": 0, "dev": "lan", "qdiscs": queues}))
    scores = json.loads((run / "scores.json").read_text())
    tables = cell_page(MATRIX.title, MATRIX.cells[0], {1: scores}, {1: run}, "report.html")["tables"]
    (told,) = (table for table in tables if table["title"] == "Queues")
    assert told["heads"][-2:] == ["marked CE", "marked SCE"]
    assert [row[-2:] for row in told["rows"]] == [["5", "–"], ["5", "31"]]


def test_an_infinite_figure_that_has_a_published_one_is_left_out_and_counted(folder: Path) -> None:
    for name in ("far <1>", "mid"):
        cell = next(cell for cell in MATRIX.cells if cell.name == name)
        for seed in (1, 2):
            run = run_folder(folder, cell, seed)
            scores = json.loads((run / "scores.json").read_text())
            scores["probes"][0]["p99_ms"] = "Infinity" if name == "mid" else 20.0
            (run / "scores.json").write_text(json.dumps(scores, allow_nan=False))
            describe(run, cell, seed)
    metric = "probes.0.p99_ms"
    published = {"near": {metric: 10.0}, "far <1>": {metric: 20.0}, "mid": {metric: 30.0}}
    reference = Reference(
        csv="x.csv", published=published, tolerance={metric: 0.1}, biases=(Bias(metric=metric, most=0.2),)
    )
    chart = Chart(title="late", unit="ms", series={"C": metric}, cells={"A": "near", "B": "mid"})
    summary = Summary(title="s", cells={"A": "near", "B": "mid"}, mbps="flows.0.d_ss_mbps", delay_ms=metric)
    changed = {"reference": reference, "charts": (chart,), "summaries": (summary,)}
    matrix = MATRIX.model_copy(update=changed)
    page = matrix_page.write(results(matrix, folder, INPUTS)).read_text()
    assert page.count('<circle class="bar dot') == 2 and f"{metric} (1 infinite: excluded)" in page
    assert "B, C: ∞ (lost) ms, published 30" in page and page.count("B: ") == 1
    assert re.search(r"1 not drawn: lost<title>B: [\d.]+ Mbit/s, ∞ \(lost\) ms</title>", page)
    ((told, met),) = results(matrix, folder, INPUTS).agreements()
    assert met is True and "0.1682 over 3 cells (1 infinite: excluded)" in told
    assert "3 cells (1 infinite: excluded); 1 within 10%" in matrix_page.summary(results(matrix, folder, INPUTS))[0]
    rows = {row["cell"]: row for row in csv.DictReader((folder / "table.csv").open()) if row["metric"] == metric}
    assert (rows["mid"]["mean"], rows["mid"]["within_tolerance"]) == ("inf", "false")


def test_a_difference_of_two_cells_is_a_figure_of_one_seed_by_seed(folder: Path) -> None:
    def told(more: str, per: float, of: str = "flows.0.d_ss_mbps") -> list[float]:
        one = Difference(cell="mid", metric="difference", of=of, more=more, less="mid", per=per)
        return results(MATRIX.model_copy(update={"differences": (one,)}), folder, INPUTS).values("mid", "difference")

    assert told("near", 1) == pytest.approx([10, 10.4], abs=0.01)
    assert told("far <1>", 50) == pytest.approx([-0.4, -0.4], abs=0.001)
    assert told("needy", 1) == told("near", 1, "harm.median") == []


def test_a_chart_of_many_ccdfs_is_split_and_pools_the_seeds(folder: Path) -> None:
    cells = {f"again {n}": "near" for n in range(7)}
    chart = Chart(title="delays", unit="ms", series={"": "probes.0.ccdf"}, cells=cells, ccdf=True)
    page = matrix_page.write(results(MATRIX.model_copy(update={"charts": (chart,)}), folder, INPUTS)).read_text()
    assert page.count("<figure>") == 3 and "delays (1 of 2)" in page and "delays (2 of 2)" in page


def test_a_curve_of_which_all_was_lost_is_at_the_top(folder: Path) -> None:
    for seed in (1, 2):
        run = run_folder(folder, MATRIX.cells[0], seed)
        scores = json.loads((run / "scores.json").read_text())
        nothing = pl.DataFrame([(1.0, 0, None)], schema=PROBES, orient="row")
        scores["probes"][0] = {"probe": 0, "ecn": "not-ect"} | probe_scores(nothing, 10).document() | {"while_flow": []}
        (run / "scores.json").write_text(json.dumps(scores, allow_nan=False))
        describe(run, MATRIX.cells[0], seed)
    chart = Chart(title="delays", unit="ms", series={"": "probes.0.ccdf"}, cells={"A": "near"}, ccdf=True)
    pages = [matrix_page.write(results(MATRIX.model_copy(update={"charts": (chart,)}), folder, INPUTS))]
    pages.append(cell_folder(folder, MATRIX.cells[0]) / "cell.html")
    for page in pages:
        assert re.search(r'<path class="line who-\S+" d="M64.0,12.0L[\d.]+,12.0" data-name', page.read_text()), page


def test_published_curves_are_dashed_beside_ours(folder: Path) -> None:
    chart = Chart(
        title="delays", unit="ms", series={"": "probes.0.ccdf"}, cells={"A": "near"}, ccdf=True,
        published={"A": ((0.0, 100.0), (9.0, 1.0)), "again": ((0.0, 50.0), (9.0, 2.0))},
    )  # fmt: skip
    page = matrix_page.write(results(MATRIX.model_copy(update={"charts": (chart,)}), folder, INPUTS)).read_text()
    keys = re.findall(r'<li data-name="([^"]*)">.*?class="line ([^"]*)"', page)
    assert keys == [
        ("A", "who-other-1"),
        ("A, published", "who-other-1 thin"),
        ("again, published", "who-other-2 thin"),
    ]
    assert page.count('class="line who-other-1 thin" d="M64') == page.count('class="line who-other-2 thin" d="M64') == 1
    # Alone the published curves are no result of ours.
    alone = chart.model_copy(update={"cells": {"A": "needy"}})
    page = matrix_page.write(results(MATRIX.model_copy(update={"charts": (alone,)}), folder, INPUTS)).read_text()
    assert " thin" not in page.partition("</style>")[2]


def test_goodput_over_time_has_a_panel_a_cell_and_the_published_series(folder: Path) -> None:
    chart = Chart(
        title="each second", unit="Mbit/s", series={"": "flows.0"}, cells={"A": "near", "B": "mid"}, over_time=True,
        published={"A": ((0.5, 50.0), (1.5, 20.0))},
    )  # fmt: skip
    page = matrix_page.write(results(MATRIX.model_copy(update={"charts": (chart,)}), folder, INPUTS)).read_text()
    (figure,) = re.findall(r"<figcaption>each second</figcaption>(.*?)</figure>", page, re.DOTALL)
    _, figure = figure.split("timeline")  # after the key
    assert figure.count('class="line who-other-1"') == 4, "two seeds of each cell"
    assert figure.count('class="line who-published"') == 1
    assert ">A (Mbit/s)<" in figure and ">B (Mbit/s)<" in figure


def test_the_summary_has_our_schemes_and_the_published_ones(folder: Path) -> None:
    summary = Summary(
        title="rate against delay",
        cells={"Prague": "near", "needy": "needy"},
        mbps="flows.0.d_ss_mbps",
        delay_ms="probes.0.p99_ms",
        published={"Copa": (2.5, 30.0)},
    )
    html = matrix_page.write(results(MATRIX.model_copy(update={"summaries": (summary,)}), folder, INPUTS)).read_text()
    chart = html[html.index("Throughput against delay") :].partition("</section>")[0]
    assert re.findall(r"<title>([^<]+)</title>", chart) == [
        "Prague: 40.2 Mbit/s, 14 ms",
        "Copa, published: 2.5 Mbit/s, 30 ms",
    ]
    assert ">needy</text>" not in chart and "published</li>" in chart
    unrun = summary.model_copy(update={"cells": {"needy": "needy"}})
    html = matrix_page.write(results(MATRIX.model_copy(update={"summaries": (unrun,)}), folder, INPUTS)).read_text()
    assert "Throughput against delay" not in html, "published ones alone are no result"


def test_the_page_of_a_cell_shows_its_single_packets(folder: Path) -> None:
    link = DeliveryTrace(mean_mbps=8, seconds=10)
    hop = dumbbell.slotted(link, "pie")
    asked = bulk("near").model_copy(update={"per_packet": True, "hops": (hop,)})
    run = run_folder(folder, bulk("near"), 1)
    rows = [(n / 100, n % 2, 1500, 30_000.0 if n % 7 else None) for n in range(900)]
    packets = pl.DataFrame(rows, schema=PACKETS, orient="row")
    packets.write_csv(run / "packets.csv")
    frames = CellFrames(pl.read_csv(run / "flows.csv", schema=FLOWS), packets=packets)
    told = score(asked, frames).document()
    view = cell_page(MATRIX.title, asked, {1: told}, {1: run}, "report.html")
    mean = f"{link.rate_bps / 1e6:.3g}"
    assert f"down delivery trace (generated, {mean} Mbit/s on average), pie; up 1000 Mbit/s" in view["setup"][0]
    plot = next(plot for plot in view["plots"] if plot["title"] == "Packets, seed 1")
    drawn = [plot["svg"].count(f'class="line who-{name}" data-name') for name in ("prague", "cubic")]
    assert drawn == [2, 2], "egress and delay"


def test_the_page_of_a_cell_tells_what_it_is_about(tmp_path: Path) -> None:
    flows = (
        Flow(contender="prague", rtt_us=0, pacing_bps=40_000_000),
        Flow(contender="cubic", rtt_us=0, from_port=40_777),
    )
    down = Direction(rate_bps=50_000_000, qdisc="fq_codel")  # type: ignore[arg-type]
    asked = Cell(
        name="all", flows=flows, hops=(Hop(down=down, host_queue=True, mangle="to-ect1", mangled_flows=(1,)),),
        seconds=9, sender_queue="fq", pacing_percent=(100, 40), tso_2020=True, offloads=True,
        short_flows=ShortFlows(rtt_us=0, remember_ssthresh=True),
    )  # fmt: skip
    assert cell_page(MATRIX.title, asked, {1: {}}, {1: tmp_path}, "report.html")["setup"] == [
        "flow 1 Prague 0 ms: paced at 40 Mbit/s",
        "flow 2 CUBIC 0 ms: from port 40777",
        "middlebox 1: down 50 Mbit/s, fq_codel; to-ect1 for 2 CUBIC 0 ms; one flow queue per host down",
        "root qdisc of the sending hosts: fq",
        "TCP paces at 100 % of cwnd/RTT in slow start, 40 % after it",
        "TCP builds packets of several segments as Linux did in 2020",
        "segmentation offloads are on: a queue's packet is up to 64 KiB",
        "900 short flows of CUBIC from 0 s, 0.2 s apart, from the slow start threshold of earlier ones",
    ]


def test_an_expectation_not_met_is_told(folder: Path) -> None:
    strict = MATRIX.model_copy(update={"expectations": (Expectation(metric="ratio", low=6, cells="near|far"),)})
    page = matrix_page.write(results(strict, folder, INPUTS)).read_text()
    assert "far &lt;1&gt;, seed 1: ratio is 5" in page
    assert "not as expected" in page


def test_every_cell_has_a_page_that_the_report_links(folder: Path) -> None:
    page = matrix_page.write(results(MATRIX, folder, INPUTS)).read_text()
    for cell in MATRIX.runnable:
        link = f"{cell_folder(Path(), cell).name}/cell.html"
        assert f'href="{link}"' in page
        assert cell.name.replace("<1>", "&lt;1&gt;") in (folder / link).read_text()
    near = (cell_folder(folder, MATRIX.cells[0]) / "cell.html").read_text()
    assert near.count("Goodput and TCP RTT, seed") == 2
    assert "fixed scale" in near and "Queue delay, seed 1" in near


def test_the_table_is_there_for_programs_and_terminals(folder: Path) -> None:
    matrix_page.write(results(MATRIX, folder, INPUTS))
    rows = list(csv.DictReader((folder / "table.csv").open()))
    far = next(row for row in rows if (row["cell"], row["metric"]) == ("far <1>", "flows.0.d_ss_mbps"))
    assert (far["mean"], far["seeds"], far["published"], far["ratio"]) == ("10", "2", "20", "0.5000")
    assert far["within_tolerance"] == "false"
    table = matrix_page.table(results(MATRIX, folder, INPUTS))
    assert len(table.lines) == 1 + 5
    assert table.lines[2][1].plain == "10.00 (20.00)"


def test_a_matrix_without_runs_has_a_report(tmp_path: Path) -> None:
    assert "0 of 5 cells" in matrix_page.write(results(MATRIX, tmp_path, INPUTS)).read_text()


def test_series_are_rates_between_samples() -> None:
    flows = pl.DataFrame(
        [(t, 0, round(t * 1e6), 20_000, 0, 0, 0, 0, 0, 0, None) for t in (1.0, 2.0, 3.0)], schema=FLOWS, orient="row"
    )
    rates, rtts = series(flows, 3, 1.0)
    assert [y for _, y in rates[0]] == [None, 8, 8]
    assert [y for _, y in rtts[0]] == [20, 20, 20]


def test_a_run_as_a_flent_file(folder: Path, tmp_path: Path) -> None:
    """The keys are those that flent 2.3's own loader reads (resultset.py, format version 4)."""
    import gzip

    paths = flent.export(cell_folder(folder, MATRIX.cells[0]), tmp_path / "out")
    assert [path.name for path in paths] == [f"{folder.name}-near-seed-{seed}.flent.gz" for seed in (1, 2)]
    data = json.loads(gzip.decompress(paths[0].read_bytes()))
    assert data["version"] == 4
    assert {len(values) for values in data["results"].values()} == {len(data["x_values"])}
    assert set(data["raw_values"]) <= set(data["results"])
    assert set(data["results"]) == set(data["metadata"]["SERIES_META"])
    first = data["raw_values"]["TCP upload::1"]
    assert first[0]["val"] == pytest.approx(40, rel=1e-3) and first[0]["tcp_rtt"] == 25.2
    assert data["results"]["TCP upload sum"][4] == pytest.approx(42, rel=1e-3)
    assert [p["val"] for p in data["raw_values"]["Ping (ms) one way 1 not-ect"]] == [11, 14]
    run = run_folder(folder, MATRIX.cells[0], 1)
    told = (run / "flows.csv").read_text().splitlines()
    (run / "flows.csv").write_text("\n".join(re.sub(r"^(([^,]*,){3})\d+", r"\1", line) for line in told) + "\n")
    assert len(flent.export(cell_folder(folder, MATRIX.cells[0]), tmp_path / "out")) == 1  # no longer as recorded
    describe(run, MATRIX.cells[0], 1)
    (path, _) = flent.export(cell_folder(folder, MATRIX.cells[0]), tmp_path / "out")
    unknown = json.loads(gzip.decompress(path.read_bytes()))["raw_values"]["TCP upload::1"][0]
    assert unknown["tcp_rtt"] is None and unknown["val"] == pytest.approx(40, rel=1e-3)
    with refusal(flent.ExportError, "not-a-run"):
        flent.export(tmp_path / "out", tmp_path)


def test_the_page_of_a_cell_gives_the_numbers_that_thresholds_need(folder: Path) -> None:
    cell = MATRIX.cells[0]
    runs = {1: json.loads((run_folder(folder, cell, 1) / "scores.json").read_text())}
    flows, *_ = cell_page(MATRIX.title, cell, runs, {1: run_folder(folder, cell, 1)}, "")["tables"]
    assert flows["heads"][1].startswith("1 ") and "the columns are flows.0 to flows.1." in flows["caption"]


def test_runs_of_one_name_are_separate_flent_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("both")
    for side in ("first", "second"):
        shutil.copytree(folder, place / side / "m")
    paths = flent.export(place, place / "out")
    names = {path.name.removeprefix("m-").removesuffix(".flent.gz") for path in paths}
    assert len(names) == len(paths) and {"near-seed-1", "near-seed-1-2"} <= names
    assert flent.export(place, place / "out") == paths  # a later export replaces its own files


def test_a_flent_file_says_the_ip_version_and_which_way_a_probe_goes() -> None:
    probe = Probe(rtt_us=0, round_trip=True)
    cell = MATRIX.cells[0].model_copy(update={"ip_version": 6, "probes": (probe,)})
    flows = pl.DataFrame(schema=FLOWS)
    probes = pl.DataFrame([(1.0, 0, 21_000.0)], schema=PROBES, orient="row")
    data = flent.data_file(cell, 1, flows, probes, datetime.fromtimestamp(0, UTC), "x.flent.gz")
    assert data["metadata"]["IP_VERSION"] == 6
    assert [p["val"] for p in data["raw_values"]["Ping (ms) there and back 1 not-ect"]] == [21]


def test_the_words_of_the_report_and_of_a_cells_page(folder: Path, golden: Callable[..., None]) -> None:
    asked = Correlation(metric="flows.0.d_ss_mbps", kind="pearson", least=0.9)
    assert MATRIX.reference
    reference = MATRIX.reference.model_copy(update={"correlations": (asked,)})
    found = results(MATRIX.model_copy(update={"reference": reference}), folder, INPUTS)
    describe(run_folder(folder, MATRIX.cells[2], 2), MATRIX.cells[2], 2, inputs="others")
    golden("matrix.html.txt", matrix_page.write(found).read_text())
    golden("cell.html.txt", (cell_folder(folder, MATRIX.cells[0]) / "cell.html").read_text())
    (console := Console(file=(output := StringIO()), width=160)).print(matrix_page.table(found))
    console.print("\n".join(matrix_page.summary(found)), soft_wrap=True)
    golden("matrix.terminal.txt", output.getvalue())
