# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.harm_tables import map_table
from sojourn.harness.report.heat_map import HarmField, HeatCell, HeatTable, heat_maps
from sojourn.harness.report.index import invalid_runs, read_folder, write_index
from sojourn.harness.report.overview import overview
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.store.loaded import VictimRun
from sojourn.harness.store.runs import RunStore
from tests.refusals import refusal
from tests.unit.harness.report.test_run_page import Page

Series = Callable[..., list[Path]]


def tables(folder: Path, metric: str) -> Sequence[HeatTable]:
    """The tables of a heat map."""
    (found,) = [it for it in heat_maps(HarmField(experiments(read_folder(folder)[0]))) if it.metric == metric]
    return found.tables


def cells(folder: Path, metric: str) -> dict[tuple[str, str, str], HeatCell]:
    """The cells of a map with one table by the head of the row, the queue and the contender."""
    (table,) = tables(folder, metric)
    queues = [queue for queue, width in table.groups for _ in range(width)]
    heads = list(zip(queues, table.heads, strict=True))
    return {(row, *head): cell for row, cells in table.rows for head, cell in zip(heads, cells, strict=True)}


def test_harm_stands_by_service_queue_and_contender(series: Series) -> None:
    series([1, 2, 3, 4, 5], void=[9])
    series([1, 1], qdisc="dualpi2")
    folder = series([2], qdisc="dualpi2", service="sledovanitv")[0].parent
    found = cells(folder, "victim_mbps")
    o2tv, other = "o2tv, 10 Mbit/s, 20 ms", "sledovanitv, 10 Mbit/s, 20 ms"
    # By hand: alone 3 Mbit/s, beside Prague 1 - stalled/20, so 1 - 0.85/3 on average.
    worst = found[o2tv, "fq_codel flows 1", "prague"]
    assert (worst.text, worst.notes, worst.few) == ("0.72", ("0.69 to 0.75", "n = 5", "1 invalid"), False)
    assert found[o2tv, "fq_codel flows 1", "cubic"].text == "0.03"
    few = found[o2tv, "dualpi2", "prague"]
    assert (few.notes, few.few) == (("0.68 to 0.68", "n = 2"), True)
    assert found[other, "dualpi2", "prague"].notes == ("n = 1",)
    assert found[other, "fq_codel flows 1", "prague"].link == ""  # never run


def test_experiments_that_differ_elsewhere_have_rows_of_their_own(series: Series) -> None:
    series([1, 2])
    folder = series([3], buffer_s=12.0)[0].parent
    heads = {head for head, *_ in cells(folder, "fps")}
    assert heads == {"o2tv, 10 Mbit/s, 20 ms (buffer 6 s)", "o2tv, 10 Mbit/s, 20 ms (buffer 12 s)"}


def test_what_has_no_figure_is_told_with_its_reason_and_link(series: Series) -> None:
    damaged, void, _ = series([1], void=[9, 8])
    (damaged / "scores.json").write_text("{")
    with pytest.raises(RuntimeError), RunStore(damaged.parent).create("video-harm", "cut") as cut:
        (cut.path / "player.jsonl").write_text("{}\n")
        raise RuntimeError("the router ended")
    page = Page(path := write_index(damaged.parent))
    assert "4 runs of 1 experiment: 1 valid, 1 invalid, 1 interrupted, 1 unreadable" in page.text
    assert "jitter: 9 ms, at most 2 ms" in page.text and "RuntimeError: the router ended" in page.text
    assert "Invalid JSON" in page.text
    assert {f"{it.name}/report.html" for it in (damaged, void)} <= set(page.references)
    assert all((path.parent / it).exists() for it in page.references if not it.startswith("#"))
    assert not list(path.parent.glob("*.new"))


def test_the_run_of_a_cell_is_named_with_its_cell(series: Series) -> None:
    """Every cell of a matrix has a run `seed-1`."""
    results = series([], void=[9, 8])[0].parent
    for run, cell in zip(sorted(results.iterdir()), ("near-1", "far-2"), strict=True):
        (results / cell).mkdir()
        run.rename(results / cell / "seed-1")
    runs, left = read_folder(results)
    assert {it.name for it in invalid_runs(runs)} == {"near-1/seed-1", "far-2/seed-1"} and not left
    page = Page(path := write_index(results))
    assert "near-1/seed-1" in page.text and "far-2/seed-1" in page.text
    assert {"near-1/seed-1/report.html", "far-2/seed-1/report.html"} <= set(page.references)
    assert all((path.parent / it).exists() for it in page.references if not it.startswith("#"))


def test_services_with_different_primary_metrics_share_the_first_map(series: Series) -> None:
    series([1, 2, 3, 4, 5])
    runs, _ = read_folder(series([2], service="sledovanitv")[0].parent)
    primary = {"o2tv": "played_height", "sledovanitv": "fps"}
    changed = [
        replace(run, scores=run.scores.model_copy(update={"primary": primary[run.options["service"]]}))
        for run in runs
        if isinstance(run, VictimRun)
    ]
    first, *others = heat_maps(HarmField(experiments(changed)))
    assert first.primary and not any(one.primary for one in others)
    rows = dict(first.tables[0].rows)
    for service, metric in primary.items():
        (other,) = (one for one in others if one.metric == metric)
        cells = rows[row := f"{service}, 10 Mbit/s, 20 ms"]
        assert cells == dict(other.tables[0].rows)[row] and any(cell.text for cell in cells)


def test_a_harm_that_rounds_to_zero_has_no_sign(series: Series) -> None:
    folder = series([1, 2])[0].parent
    better = [
        replace(run, scores=run.scores.model_copy(update={"harm": harm}))
        for run in read_folder(folder)[0]
        if isinstance(run, VictimRun)
        for harm in [[it.model_copy(update={"harm": -0.0009}) for it in run.scores.harm]]
    ]
    field = HarmField(groups := experiments(better))
    ((_, in_map),) = heat_maps(field)[0].tables[0].rows
    assert {(cell.text, cell.notes[0]) for cell in in_map} == {("0.00", "0.00 to 0.00")}
    assert {(row.harm.text, row.harm.notes) for row in overview(field, folder)} == {("0.00", ())}
    assert "| 0.00 | 0.00 |" in (table := map_table(groups)) and "-0.00" not in table


def test_all_void_is_no_figure_and_no_colour(series: Series) -> None:
    folder = series([], void=[1, 2])[0].parent
    assert heat_maps(HarmField(experiments(read_folder(folder)[0]))) == []
    assert "background: rgb" not in write_index(folder).read_text()
    series([1], qdisc="dualpi2")
    cell = cells(folder, "fps")["o2tv, 10 Mbit/s, 20 ms", "fq_codel flows 1", "prague"]
    assert (cell.text, cell.notes, cell.style) == ("invalid", ("2 invalid",), "")


def test_the_published_order_is_next_to_each_experiment(series: Series) -> None:
    series([1, 2, 3, 4, 5])
    text = Page(write_index(series([2], qdisc="dualpi2")[0].parent)).text
    assert text.count("goodput yes, harm yes") == 2
    assert "20 Mbit/s, fq_codel flows 1" in text and "10 Mbit/s, dualpi2" in text


def test_the_command_takes_a_folder_and_refuses_what_is_none(series: Series, tmp_path: Path) -> None:
    folder = series([1])[0].parent
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert (done.exit_code, done.stdout) == (0, f"{folder / 'index.html'}\n")
    with refusal(ReportError, "not-a-run"):
        write_index(tmp_path)


def test_a_box_is_a_column_and_its_rows_say_nothing_of_a_path(series: Series) -> None:
    series([1])
    folder = series([2], qdisc=None, box="vendor CPE", lab="black-box")[0].parent
    found = cells(folder, "victim_mbps")
    assert found["o2tv", "vendor CPE", "prague"].notes == ("n = 1",)
    assert found["o2tv, 10 Mbit/s, 20 ms", "fq_codel flows 1", "prague"].notes == ("n = 1",)
    assert (
        not any("None" in text for head in found for text in head) and "vendor CPE" in write_index(folder).read_text()
    )


def test_two_swept_options_make_a_plane_per_queue_and_contender(series: Series) -> None:
    for rtt_us in (40_000, 9_000):
        for rate in (20_000_000, 5_000_000):
            path = {"rtt_us": rtt_us, "rate_down_bps": rate, "rate_up_bps": rate}
            folder = series([rtt_us / 10_000], **path)[0].parent
    series([5], rtt_us=40_000, rate_down_bps=20_000_000, rate_up_bps=20_000_000, qdisc="dualpi2")
    planes = tables(folder, "played_height")
    assert [table.caption for table in planes] == [
        "dualpi2, with cubic", "dualpi2, with prague",
        "fq_codel flows 1, with cubic", "fq_codel flows 1, with prague",
    ]  # fmt: skip
    dualpi2, plane = planes[1], planes[3]
    # The smaller values come first, and of two options with as many values the first by name down.
    assert (plane.corner, plane.heads, [head for head, _ in plane.rows]) == (
        "rate ↓ rtt →", ["9 ms", "40 ms"], ["5 Mbit/s", "20 Mbit/s"],
    )  # fmt: skip
    # By hand: 720 lines alone, 36 (10 - stalled) with Prague.
    assert [[cell.text for cell in cells] for _, cells in plane.rows] == [["0.55", "0.70"], ["0.55", "0.70"]]
    assert [[cell.text for cell in cells] for _, cells in dualpi2.rows] == [["", ""], ["", "0.75"]]
    page = write_index(folder).read_text()
    assert page.count('title="n = 1"') >= 9 and "planes" in page


def test_one_swept_option_is_in_order_down_one_table(series: Series) -> None:
    for buffer in (12.0, 4.0, 8.0):
        folder = series([1], buffer_s=buffer)[0].parent
    (table,) = tables(folder, "fps")
    assert [head.split("buffer ")[-1] for head, _ in table.rows] == ["4 s)", "8 s)", "12 s)"]


def test_programs_are_columns_and_two_versions_of_one_are_rows(series: Series) -> None:
    program = {"name": "program_mine", "server": "mine {port}", "client": "mine {address} {port}", "sender": "client"}
    series([1], qdisc="pfifo limit 1000")
    folder = series([1], qdisc="pfifo limit 67", programs=[program])[0].parent
    (table,) = tables(folder, "fps")
    assert [head for head, _ in table.rows] == ["o2tv, 10 Mbit/s, 20 ms"]
    assert [queue for queue, _ in table.groups] == ["pfifo limit 67", "pfifo limit 1000"]
    series([1], qdisc="pfifo limit 67", programs=[program | {"ecn": "ect1"}])
    rows = [head for table in tables(folder, "fps") for head, _ in table.rows]
    assert len(rows) == 3 and sum("program_mine " in head for head in rows) == 2
    titles = " ".join(one.title for one in experiments(find_runs([folder])))
    assert all(f"program_mine {head.partition('program_mine ')[2][:8]}" in titles for head in rows)


def test_a_page_of_many_experiments_opens_with_the_map(series: Series) -> None:
    for number in range(13):
        folder = series([1], buffer_s=4.0 + number)[0].parent
    page = write_index(folder).read_text()
    assert page.index("<h2>Harm by metric</h2>") < page.index("<h2>Harm with every contender</h2>")


def test_a_map_of_one_queue_and_contender_opens_with_the_map(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    for rtt_us in (40_000, 9_000):
        for rate in (20_000_000, 5_000_000):
            folder = series([1], rtt_us=rtt_us, rate_down_bps=rate, rate_up_bps=rate)[0].parent
    monkeypatch.setattr("sojourn.harness.report.heat_map._contenders", lambda _: ["prague"])
    page = write_index(folder).read_text()
    assert page.index("<h2>Harm by metric</h2>") < page.index("<h2>Harm with every contender</h2>")


def test_swept_lists_and_options_that_some_runs_lack_are_rows_too(series: Series) -> None:
    for ladder in ([[240, 300_000]], [[240, 300_000], [720, 2_500_000]]):
        for loss in ({}, {"loss_percent": 1.0}):
            folder = series([1], ladder=ladder, **loss)[0].parent
    _, plane = tables(folder, "fps")
    assert [head for head, _ in plane.rows] == ["240p at 300 kbit/s", "240p at 300 kbit/s, 720p at 2.5 Mbit/s"]
    assert set(plane.heads) == {"default", "1%"}
    assert all(cell.text for _, cells in plane.rows for cell in cells)
    assert write_index(folder).exists()


def test_changes_of_the_rate_are_a_swept_value(series: Series) -> None:
    def steps(mbps: int) -> list[dict[str, float]]:
        return [{"at_s": 10.0, "rate_bps": mbps * 1_000_000}, {"at_s": 40.0, "rate_bps": 8_000_000}]

    path = {"rate_down_bps": 8_000_000, "rate_up_bps": 8_000_000}
    for mbps in (2, 1):
        folder = series([1, 2], **path, rate_steps=steps(mbps), rate_up_steps=steps(mbps))[0].parent
    series([1, 2], **path, rate_steps=[], rate_up_steps=[])
    (table,) = tables(folder, "played_height")
    assert [head for head, _ in table.rows] == [
        "o2tv, 8 Mbit/s, 20 ms",
        "o2tv, 8 Mbit/s, 1 Mbit/s from 10 s on, 8 Mbit/s from 40 s on, 20 ms",
        "o2tv, 8 Mbit/s, 2 Mbit/s from 10 s on, 8 Mbit/s from 40 s on, 20 ms",
    ]
    assert write_index(folder).exists()
