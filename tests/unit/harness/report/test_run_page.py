# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sojourn.harness.report.grids import other_contenders_table
from sojourn.harness.report.published_tables import published_table, services_table
from sojourn.harness.report.run_page import write_report
from sojourn.harness.report.terminal import print_scores
from sojourn.harness.store.loaded import LoadError, load_scores
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import OWN, Curve, Scores, Sojourn
from sojourn.scoring.time_series import Frozen, run_series
from tests.refusals import refusal


class Page(HTMLParser):
    def __init__(self, page: Path) -> None:
        super().__init__()
        self.references: list[str] = []
        self.cells: list[str] = []
        self.text = ""
        self._in_cell = False
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "poster", "srcset")]
        if tag in ("td", "th"):
            self._in_cell = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_cell:
            self.cells[-1] += data


def test_the_guests_packages_are_folded_away(scores: Scores, tmp_path: Path) -> None:
    versions = {"iperf3": "3.18", "guest chromium": "150.0", "guest xvfb": "2:21.1", "processor flags": "avx avx2"}
    (tmp_path / "lab.json").write_text(json.dumps({"versions": versions}))
    text = write_report(tmp_path, scores).read_text()
    *_, versions, guest = text.split("<details>")
    assert "iperf3" in versions and "Guest and processor (3)" in guest
    assert not any(name in versions for name in ("guest chromium", "guest xvfb", "avx2"))


def test_hostile_names_are_only_text(scores: Scores, tmp_path: Path) -> None:
    hostile = '"><img src=x onerror=alert(1)><svg onload=alert(1)>'
    document = json.loads(scores.model_dump_json().replace('"prague"', json.dumps(hostile)))
    (tmp_path / "options.json").write_text(json.dumps({"service": hostile}))
    text = write_report(tmp_path, document).read_text()
    assert "<img src=x" not in text and "<svg onload" not in text and "&lt;img src=x" in text


def test_checks_are_folded_unless_one_failed(scores: Scores, tmp_path: Path) -> None:
    passed = write_report(tmp_path, scores).read_text()
    assert "<details><summary>All 1 checks passed</summary>" in passed
    gates = [*scores.validity.model_dump()["gates"], {"name": "g", "ok": False, "measured": "9", "limit": "2"}]
    void = scores.model_dump() | {"harm": [], "validity": {"valid": False, "gates": gates}}
    assert "<details open><summary>1 of 2 checks failed</summary>" in write_report(tmp_path, void).read_text()


def test_scores_of_an_older_scorer_are_read_and_shown(scores: Scores, tmp_path: Path) -> None:
    """1.8 had metrics that are no more, null for what was infinite, and knew of no primary one."""
    old = json.loads(scores.model_dump_json(exclude={"primary", "own_kind"})) | {"scorer": "1.8"}
    for row in (*old["phases"], old["baseline"]):
        row |= {"stall_s_per_min": 15.0, "drops_per_min": 0.0, "freezes_per_min": 12.0, "rtt_p99_ms": None}
        for name in ("played_share", "played_height", "frames_in_time"):
            row.pop(name)
    gone = {"phase": "prague", "contender": "prague", "metric": "stall_s_per_min", "better": "less"}
    old["harm"].append(gone | {"solo": 0, "value": 15.0, "harm": 1})
    page = Page(write_report(tmp_path, old))
    assert (
        "goodput of the victim (Mbit/s)" in page.cells
        and "never stalls" not in page.text
        and "stall_s_per_min" not in page.text
    )


def test_the_baseline_is_drawn_where_its_name_is_a_phases_too(scores: Scores, tmp_path: Path) -> None:
    alone, beside, _ = scores.phases
    alone.name, scores.ccdf[0].name = "solo", "solo"
    scores.ccdf[0].ms, scores.ccdf[2].ms = [1, 2], [20, 21]
    told = run_series(scores.model_copy(update={"phases": [alone, beside]}), tmp_path)
    ((_, curves),) = told.ccdfs
    assert [(name, points[0][0]) for name, _, points in curves] == [("solo", 20), ("prague", 25)]


def test_both_probes_are_shown_by_the_queue_that_they_see(scores: Scores, tmp_path: Path) -> None:
    lone = Page(write_report(tmp_path, scores)).text
    assert not re.search(r"\((Not-ECT|ECT\(1\)|C queue|L queue)\)", lone), "which one the only probe was nobody says"
    scores.ect1_ccdf = [scores.ccdf[1].model_copy(update={"ms": [20, 21, 22]})]
    scores.phases[1].ect1_rtt_p99_ms, scores.phases[1].ect1_probe_loss = 3.5, 0.0
    names = "rtt_answered_p99_ms", "ect1_rtt_answered_p99_ms"
    scores.harm += [scores.harm[0].model_copy(update={"metric": name, "harm": 0.0}) for name in names]
    for queue, classic, l4s in (
        ("fq_codel", "Not-ECT", "ECT(1)"), ("dualpi2 target 20ms", "C queue", "L queue"),
    ):  # fmt: skip
        file = write_report(tmp_path, scores.model_copy(update={"lab": scores.lab | {"qdisc_down": queue}}))
        page = Page(file)
        at = page.cells.index(f"RTT of the answered probes ({classic}), P99 (ms)")
        assert page.cells[at + 4] == f"RTT of the answered probes ({l4s}), P99 (ms)", "the next row"
        assert f"probes lost ({l4s})" in page.cells
        assert re.findall("<h3>(.*)</h3>", file.read_text()) == [classic, l4s], "a curve each"


def test_a_lost_percentile_and_a_short_baseline_are_told(scores: Scores, tmp_path: Path) -> None:
    document = json.loads(scores.model_dump_json()) | {"primary": "victim_mbps"}
    document["phases"][1]["rtt_p99_ms"] = "Infinity"
    document["ccdf"][1]["percent"] = [90, 5, 3]
    page = Page(write_report(tmp_path, document))
    assert "∞ (lost)" in page.cells and "goodput of the victim (Mbit/s), primary" in page.cells
    assert "(10 s only). Use at least 60 s for a reliable baseline." in page.text and "alone (10 s only)" in page.text


def test_a_rate_that_steps_is_in_head_timeline_and_backlog(scores: Scores, tmp_path: Path) -> None:
    assert not run_series(scores, tmp_path).rates
    steps = [{"t": 5.0, "direction": "down", "rate_bps": 5e6}, {"t": 6.0, "direction": "up", "rate_bps": 1e6}]
    stepped = scores.model_copy(update={"lab": scores.lab | {"rate_steps": steps}})
    samples = [(1.0, 12_500), (8.0, 12_500)]
    (tmp_path / "qdisc.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "t": scores.t0 + t,
                    "dev": "lan",
                    "qdiscs": [{"kind": "pie", "handle": "1:", "bytes": 9, "backlog": b}],
                }
            )
            + "\n"
            for t, b in samples
        )
    )
    view = run_series(stepped, tmp_path)
    assert view.rates == [(0.0, 5.0, 10.0), (5.0, view.end, 5.0)]
    assert [ms for _, ms in view.queue.backlog_ms] == [10.0, 20.0], "the same bytes wait twice as long"
    page = Page(write_report(tmp_path, stepped)).text
    assert "10 Mbit/s, 5 from 5 s on, fq_codel flows 1" in page and "bottleneck's rate" in page


def test_the_report_shows_harm_phases_and_proof(scores: Scores, tmp_path: Path) -> None:
    page = Page(write_report(tmp_path, scores.model_dump()))
    at = page.cells.index("goodput of the victim (Mbit/s)")
    assert page.cells[at + 1 : at + 4] == ["2.50", "0.40", "0.84"]
    for head, figures in [("victim Mbit/s", "2.50 0.40 2.50"), ("lowest", "720p 240p 720p"), ("stalls", "0 2 0")]:
        at = page.cells.index(head)
        assert page.cells[at + 1 : at + 4] == figures.split()
    assert "ECT(1) 8000" in page.text and "CE 412" in page.text and "window goodput 9.08 Mbit/s" in page.text
    assert "Video with prague: effective resolution 156 lines, 720 alone; " in page.text
    assert "recording" not in page.text.split("Shaded")[0].split("Timeline")[1]


def test_a_void_run_gives_reasons_and_no_verdict(scores: Scores, tmp_path: Path) -> None:
    gates = [{"name": "g", "ok": False, "measured": "9 ms", "limit": "2 ms", "reason": "g: 9 ms <b>; 2 ms"}]
    void = scores.model_dump() | {"harm": [], "validity": {"valid": False, "gates": gates}}
    path = write_report(tmp_path, void)
    page = Page(path)
    assert "g: 9 ms <b>; 2 ms" in page.text and "<b>;" not in path.read_text()
    assert "with prague:" not in page.text and ">measurement: invalid<" in path.read_text()
    assert (
        ">harm: " not in path.read_text()
        and "<h1>Video through fq_codel flows 1, 10 Mbit/s: no harm reported" in path.read_text()
    )
    assert "INVALID: for diagnosis only" in page.text


def test_a_youtube_run_stands_beside_the_published_one(scores: Scores, tmp_path: Path) -> None:
    assert "Published" not in Page(write_report(tmp_path, scores)).text
    (tmp_path / "options.json").write_text('{"service": "youtube"}')
    cells = Page(write_report(tmp_path, scores)).cells
    at = cells.index("this run")
    ours = (
        "effective resolution 156 lines, 720 alone; 22 frames/s; 2 stalls (3.5 s); resolution falls from 720p to 240p"
    )
    assert cells[at + 1 : at + 5] == ["prague", "10 Mbit/s, fq_codel flows 1", "9.10", ours]
    text = (tmp_path / "report.html").read_text()
    assert '<td class="text" data-head="harm">effective resolution 156' in text, "it wraps"
    at = cells.index("resolution reduction 2160p to 1440p")
    assert cells[at - 4 : at] == ["published", "prague", "30 Mbit/s, fq_codel flows 1, QUIC (BBR?)", "19"]
    verdict = scores.validity.model_copy(update={"valid": False})
    void = published_table(scores.model_copy(update={"validity": verdict}), "youtube")
    assert void.rows[0].cells[-1] == "invalid: no harm reported"


def test_report_and_terminal_tell_what_the_lab_adds(scores: Scores, tmp_path: Path) -> None:
    host = {"cpu_cores_mean": 1.02, "cpu_cores_max": 1.69, "cores": 2, "stall_worst_ms": 10.7}
    told = Scores.model_validate(
        scores.model_dump() | {"jitter_ms": {"p50": 0.46, "p99": 1.5, "max": 12}, "host": host}
    )
    output = StringIO()
    print_scores(told, tmp_path, Console(file=output, width=200))
    for text in (Page(write_report(tmp_path, told)).text, output.getvalue()):
        assert "P50 0.46, P99 1.50, max 12 ms" in text
        assert "mean 1.02, max 1.69 of 2 cores; worst stall 10.70 ms" in text


def test_report_and_terminal_tell_what_competed_besides_bulk_flows(scores: Scores, tmp_path: Path) -> None:
    had = {"web_flows": 57, "web_unfinished": 2, "web_fct_p50_s": 0.314, "web_fct_p95_s": 2.5, "call_down_loss": 0.0123}
    phases = [phase.model_copy(update=had if phase.contender else {}) for phase in scores.phases]
    told = scores.model_copy(update={"phases": phases})
    assert not other_contenders_table(scores).rows
    grid = other_contenders_table(told)
    contended = [phase.name for phase in phases if phase.contender]
    assert grid.heads == ["", *contended] and grid.contended == set(range(1, len(contended) + 1))
    had_there = [("web flows", "57"), ("unfinished", "2"), ("FCT P50 s", "0.31"), ("FCT P95 s", "2.50")]
    assert [row.cells for row in grid.rows] == [
        [head, *[figure] * len(contended)] for head, figure in [*had_there, ("call down: lost", "1.23%")]
    ]
    output = StringIO()
    print_scores(told, tmp_path, Console(file=output, width=200))
    assert all("FCT P50 s" in text for text in (Page(write_report(tmp_path, told)).text, output.getvalue()))


def test_a_single_queue_has_no_name_in_the_plot_of_sojourn_times(scores: Scores, tmp_path: Path) -> None:
    def key(*names: str) -> list[str]:
        curves = [Curve(name=name, ms=[1.0, 2.0], percent=[50.0, 0.0], probes=2) for name in names]
        row = {"phase": "prague", "of": "victim", "queue": "C", "packets": 9}
        row |= dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "max_ms"), 1.0)
        told = scores.model_copy(update={"sojourn_ccdf": curves, "sojourn": [Sojourn.model_validate(row)]})
        page = write_report(tmp_path, told).read_text().partition("<h2>Sojourn time</h2>")[2]
        return re.findall(r'<li data-name="([^"]*)"><svg[^>]*><path class="([^"]*)"', page.partition("</ul>")[0])

    one, own = key("prague C", f"prague C{OWN}")
    assert (one[0], own[0]) == ("prague", "prague, as the qdisc reports")
    assert "solid" not in one[1] and "faint" in own[1]
    assert [name for name, _ in key("prague C", "prague L")] == ["prague C", "prague L"]


def test_an_interrupted_run_says_so(scores: Scores, tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("t", "c", command_line=["pytest", "--qdisc=fq_codel flows 1"])
    running = write_report(run.path, scores).read_text()
    assert ">measurement: interrupted<" in running and "pytest &#39;--qdisc=fq_codel flows 1&#39;" in running
    assert "did not reach its end" in running and "with prague:" not in running and "<h2>Harm</h2>" not in running
    run.interrupt(Reason.of("failed", "the router stopped answering"))
    assert "the router stopped answering" in Page(write_report(run.path, scores)).text


def test_quality_is_rebuilt_from_its_changes(scores: Scores, tmp_path: Path) -> None:
    view = run_series(scores, tmp_path)
    assert view.quality == [(0, 13, 720), (13, 25, 240), (25, 30, 720)]
    earlier = scores.renditions[0].model_copy(update={"t": -3.0, "before": 240, "after": 480})
    view = run_series(scores.model_copy(update={"renditions": [earlier]}), tmp_path)
    assert view.quality == [(0, 30, 480)]
    assert run_series(scores.model_copy(update={"renditions": []}), tmp_path).quality == [(0, 30, 720)]


def test_a_contender_is_drawn_only_while_it_competes(scores: Scores, tmp_path: Path) -> None:
    view = run_series(scores, tmp_path)
    assert [value for _, value in view.contender] == [None] * 10 + [9.1] * 10 + [None] * 10
    assert view.victim[0] == (0.5, 2.5) and view.frozen[0] == Frozen("stall", 14.0, 2.5)
    ((_, curves),) = view.ccdfs
    assert [name for name, *_ in curves] == ["prague", "solo"]


def test_scores_that_are_none_are_one_clear_line(tmp_path: Path) -> None:
    with refusal(LoadError, "unreadable-run", "No such file", "sojourn rescore"):
        load_scores(tmp_path)
    (tmp_path / "scores.json").write_text("{}")
    with pytest.raises(LoadError, match="Field required") as error:
        load_scores(tmp_path)
    assert "\n" not in str(error.value)


def test_services_stand_in_the_published_table_with_ours_beside(scores: Scores) -> None:
    gates = [{"name": "g", "ok": False, "measured": "", "limit": "", "reason": "g"}]
    void = Scores.model_validate(scores.model_dump() | {"validity": {"valid": False, "gates": gates}})
    grid = services_table([("o2tv", scores), ("o2tv", void), ("nobody", scores)])
    (row,) = grid.rows
    told = dict(zip(grid.heads, row.cells, strict=True))
    assert (told["service"], told["published bottleneck"]) == ("o2tv", "20 Mbit/s, fq_codel flows 1")
    assert told["with prague"] == (
        "9.10 Mbit/s; effective resolution 156 lines, 720 alone; 22 frames/s; 2 stalls (3.5 s); "
        "resolution falls from 720p to 240p / 1 invalid"
    )
    assert told["with cubic"] == "not run / 1 invalid"
    assert told["order agrees"] == "–"


def test_a_box_is_named_and_nothing_is_said_of_it_that_nobody_knows(scores: Scores, tmp_path: Path) -> None:
    seen = {"box": "vendor CPE", "most_down_bps": 9_904_000, "most_up_bps": 397_784}
    seen |= {"least_down_ms": 10.028, "least_up_ms": 10.031}
    unknown = dict.fromkeys(("rate_down_bps", "rate_up_bps", "rtt_ms", "qdisc_down", "qdisc_up"))
    lab = {"name": "black-box", **unknown, **seen}
    page = Page(write_report(tmp_path, box := scores.model_copy(update={"lab": lab})))
    assert "black-box: vendor CPE" in page.text and "neither configured nor read" in page.text
    assert (
        "9.9 Mbit/s / 0.4 Mbit/s" in page.cells and "10.03 ms down, 10.03 ms up by both captures' clocks" in page.text
    )
    assert "None" not in page.text and "0 Mbit/s," not in page.text
    said = box.model_copy(update={"lab": lab | {"rate_down_bps": 20e6}})
    assert "black-box: 20 Mbit/s, vendor CPE" in Page(write_report(tmp_path, said)).text
    assert published_table(said, "youtube").rows[0].cells[2] == "20 Mbit/s, vendor CPE"
    assert published_table(box, "youtube").rows[0].cells[2] == "vendor CPE"
