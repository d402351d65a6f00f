# SPDX-License-Identifier: Apache-2.0
"""Figures for documents: what they show of a run or of a folder, on a page and in a column of a paper."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import cv2
import numpy as np
import pytest

import sojourn
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.figures import STYLES, Kind, StyleName, figure
from sojourn.harness.report.palette import _DASHES, LOOKS
from sojourn.harness.report.picture import PictureError, write_picture
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.store.loaded import LoadError
from sojourn.harness.store.manifest import reseal
from sojourn.scoring.schema.scores import Curve, Scores
from tests.programs.harness.cli.test_one_door import made
from tests.refusals import refusal
from tests.unit.harness.conftest import Series

NS = {"s": "http://www.w3.org/2000/svg"}
OF_A_RUN = ("timeline", "ccdf")
PDF_PAGE = re.compile(rb"/MediaBox ?\[0 0 (\S+) (\S+)\]")


@pytest.fixture
def run(scores: Scores, tmp_path: Path) -> Path:
    return made(tmp_path / "results", scores)


def shown(drawing: sojourn.Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(drawing._repr_svg_())


def words(drawing: sojourn.Drawing) -> list[str]:
    return ["".join(it.itertext()) for it in shown(drawing).iter(f"{{{NS['s']}}}text")]


def of_class(drawing: sojourn.Drawing, name: str) -> list[dict[str, str]]:
    return [it.attrib for it in shown(drawing).iter() if name in it.get("class", "").split()]


def coordinates(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+),([\d.]+)", path)]


def test_a_ccdf_has_a_curve_per_phase_with_its_key(run: Path) -> None:
    drawing = sojourn.figure(run, kind="ccdf")
    assert {"prague", "solo", "share of probes above", "round-trip time of the probe (ms)"} <= set(words(drawing))
    lines = [it for it in of_class(drawing, "line") if not it["d"].endswith("h26")]
    assert [it["class"] for it in lines] == ["line who-prague", "line who-alone"]
    prague, solo = (coordinates(it["d"]) for it in lines)
    assert prague[0][0] > solo[0][0], "25 ms are right of 20 ms"
    assert prague[0][1] < solo[0][1], "90 % are above 50 %"


def test_two_probes_are_told_apart_and_what_bypasses_the_queue_is_not_drawn(scores: Scores, tmp_path: Path) -> None:
    curves = [curve.model_dump() for curve in scores.ccdf]
    changes: dict[str, Any] = {"lab": scores.lab | {"qdisc_down": "dualpi2"}, "ect1_ccdf": curves}
    changes["ccdf"] = [*curves, Curve(name="unshaped", ms=[20.0], percent=[0.0], probes=10).model_dump()]
    run = made(tmp_path / "results", Scores.model_validate(scores.model_dump() | changes))
    drawing = sojourn.figure(run, kind="ccdf")
    names = {word for word in words(drawing) if "queue" in word}
    kinds = [kind.split() for kind in re.findall(r'class="line (who-[^"]+)" d="[^"]*" data-name', drawing.svg)]
    dashes = {
        (LOOKS[who.removeprefix("who-")].light, _DASHES[int(more[0][-1]) - 1] if more else LOOKS[who[4:]].dash)
        for who, *more in kinds
    }
    assert len(kinds) == len(dashes) == 4, kinds
    assert names == {f"{phase}, {queue} queue" for phase in ("prague", "solo") for queue in "CL"}


def test_the_timeline_of_a_paper_has_no_heading_and_dashes_instead_of_colours(run: Path) -> None:
    page, paper = sojourn.figure(run), sojourn.figure(run, style="paper")
    assert any("stalled" in word or "stalls" in word for word in words(page))
    assert not any("Video with" in word for word in words(paper)) and of_class(page, "heading")
    kinds = [it["class"] for it in of_class(paper, "line")]
    assert set(kinds) == {it["class"] for it in of_class(page, "line")}, "the style alone draws them differently"
    assert {"line who-victim bold", "line who-prague"} <= set(kinds)


@pytest.mark.parametrize("kind", ["box", "bar"])
def test_a_metric_over_runs_has_a_row_per_contender_with_its_interval(series: Series, kind: Kind) -> None:
    paths = series([1, 2, 3, 4, 5, 6])
    drawing = sojourn.figure(paths[0].parent, kind=kind, metric="stall_s")
    assert {"with cubic", "with prague", "stalled (s)", "o2tv 20mbit, 6 runs"} <= set(words(drawing))
    ticks = {it.text: float(it.attrib["x"]) for it in shown(drawing).findall("s:text[@class='tick x']", NS)}
    per_s = (ticks["4"] - ticks["2"]) / 2

    def at(value: float) -> Any:
        return pytest.approx(ticks["0"] + per_s * value, abs=0.2)

    (one,) = experiments(find_runs(paths))
    stalled = one.summary.figure("stall_s")
    assert stalled and (estimate := stalled.contended["prague"]).low and estimate.high
    (interval,) = (it for it in of_class(drawing, "range") if it["y1"] == it["y2"])
    assert [float(interval["x1"]), float(interval["x2"])] == [at(estimate.low), at(estimate.high)]
    if kind == "bar":
        _, bar = of_class(drawing, "estimate")
        assert float(bar["x"]) == at(0) and float(bar["x"]) + float(bar["width"]) == at(3.5)
    else:
        _, box = of_class(drawing, "box")
        assert float(box["x"]) == at(2.25) and float(box["x"]) + float(box["width"]) == at(4.75)
        assert [float(it["x1"]) for it in of_class(drawing, "median")][1] == at(3.5)
        assert [float(it["cx"]) for it in of_class(drawing, "run")][6:] == [at(n) for n in range(1, 7)]


def test_the_default_metric_is_the_harm_in_the_primary_one(series: Series) -> None:
    (path,) = series([4])
    drawing = sojourn.figure(path, kind="bar")
    assert repr(drawing) == "<drawing: harm: effective resolution, 0 while stalled>"
    assert "harm: effective resolution, 0 while stalled" in words(drawing)
    assert not of_class(drawing, "range"), "one run has no interval"


def test_experiments_have_headings_in_a_paper_unless_there_is_one(series: Series) -> None:
    folder = series([1, 2])[0].parent
    one = sojourn.figure(folder, kind="box", style="paper")
    assert not of_class(one, "panel")
    series([3], qdisc="dualpi2")
    two = words(sojourn.figure(folder, kind="box", style="paper"))
    assert {"o2tv 20mbit (qdisc fq_codel flows 1), 2 runs", "o2tv 20mbit (qdisc dualpi2), 1 run"} <= set(two)


def test_cells_of_a_matrix_are_in_the_order_of_their_numbers(series: Series) -> None:
    runs = {5: series([1]), 20: series([2], buffer_s=12.0), 10: series([3], buffer_s=9.0)}
    for rate, (run,) in runs.items():
        (cell := run.parent / f"cell-{rate}mbit").mkdir()
        run.rename(cell / "seed-1")
    drawn = figure(run.parent, "bar", metric="stall_s").svg
    assert drawn.index("buffer 6 s") < drawn.index("buffer 9 s") < drawn.index("buffer 12 s")


@pytest.mark.parametrize(("style", "width"), [("page", 720), ("paper", 317)])
def test_a_long_name_stays_inside_a_figure(series: Series, style: StyleName, width: int) -> None:
    name = "program_" + "a-rather-long-name-of-a-sender-" * 3
    (path,) = series([1], programs=[{"name": name, "client": "x"}])
    document = (path / "scores.json").read_text().replace('"prague"', f'"{name}"')
    (path / "scores.json").write_text(document)
    reseal(path, "scores.json")
    drawing = sojourn.figure(path, kind="bar", style=style)
    assert any("…" in it for it in words(drawing)) and max(map(len, words(drawing))) * 5.9 < width
    assert all(float(it["x"]) > 5.9 * 20 for it in of_class(drawing, "y"))


def test_an_infinite_figure_is_at_the_edge(series: Series) -> None:
    paths = series([1, 2, 3])
    for path in paths:
        document = Scores.model_validate_json((path / "scores.json").read_bytes())
        for phase in document.phases:
            phase.rtt_p99_ms = inf if phase.contender == "prague" else 60.0
        (path / "scores.json").write_text(document.model_dump_json())
        reseal(path, "scores.json")
    for kind in ("box", "bar"):
        drawing = sojourn.figure(paths[0].parent, kind=kind, metric="rtt_p99_ms")
        assert "∞" in words(drawing) and "inf" not in drawing.svg and "nan" not in drawing.svg


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("style", get_args(StyleName))
def test_a_figure_is_a_file_in_every_format(run: Path, tmp_path: Path, kind: Kind, style: StyleName) -> None:
    drawing = figure(run if kind in OF_A_RUN else run.parent, kind, style)
    for suffix in ("png", "svg", "pdf", "jpg"):
        drawing.write(tmp_path / f"x.{suffix}")
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    page = PDF_PAGE.search((tmp_path / "x.pdf").read_bytes())
    picture = cv2.imread(str(tmp_path / "x.png"), cv2.IMREAD_UNCHANGED)
    photo = cv2.imread(str(tmp_path / "x.jpg"), cv2.IMREAD_UNCHANGED)
    assert page and picture is not None and photo is not None
    assert photo[0, 0].tolist() == [255, 255, 255]
    if style == "paper":
        assert float(root.attrib["width"]) / 96 == pytest.approx(3.3)
        assert float(page[1]) / 72 == pytest.approx(3.3)
        assert picture.shape[2] == 4 and picture[0, 0, 3] == 0, "no background"
        inked = picture[picture[..., 3] > 0][:, :3].astype(int)
        assert (np.ptp(inked, axis=1) == 0).all(), "grey on any screen"
        assert picture.shape[1] == pytest.approx(3.3 * 600, abs=2)
    else:
        assert picture.shape[2] == 3 and picture[0, 0].tolist() == [255, 255, 255]


def test_curves_of_a_paper_differ_by_their_dashes() -> None:
    dashes = re.findall(r"\.line\.dashes-\d { stroke-dasharray: ([^}]*) }", STYLES["paper"].rules)
    assert len(dashes) == len(set(dashes)) == 6


def test_what_cannot_be_drawn_is_refused(run: Path, tmp_path: Path, series: Series) -> None:
    with refusal(ReportError, "unknown-value", "--kind timelin: ", "did you mean timeline?"):
        figure(run, "timelin")  # type: ignore[arg-type]
    with refusal(ReportError, "unknown-value", "--style print: "):
        figure(run, style="print")  # type: ignore[arg-type]
    with refusal(ReportError, "conflict", "--metric"):
        figure(run, metric="stalls")
    with refusal(ReportError, "unknown-value", "--metric stall: ", "did you mean stalls?"):
        figure(run, "bar", metric="stall")
    (other,) = series([1])
    with refusal(ReportError, "unknown-value", "--metric harm.rtt_p99_ms: ", "write harm.rtt_answered_p99_ms"):
        figure(other, "bar", metric="harm.rtt_p99_ms")
    with refusal(RuntimeError, "not-a-run", run.parent):
        figure(run.parent, "ccdf")
    (void,) = series([], void=[3])
    with refusal(LoadError, "invalid-run", void):
        figure(void, "ccdf")
    with refusal(ReportError, "invalid-run", void):
        figure(void, "box")
    with pytest.raises(PictureError, match=r"x\.pgf: PGF is not supported; write a \.pdf"):
        write_picture(figure(run).svg, tmp_path / "x.pgf")
    assert not (tmp_path / "x.pgf").exists()
