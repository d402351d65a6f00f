# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from math import inf
from xml.etree import ElementTree

import pytest

from sojourn.harness.report.svg import (
    Bar,
    Dot,
    Dots,
    Line,
    Panel,
    Scale,
    bar_chart,
    ccdf_plot,
    estimate_plot,
    scatter_plot,
    ticks,
    time_plot,
)

NS = {"s": "http://www.w3.org/2000/svg"}


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def numbers(path: str) -> list[tuple[str, float, float]]:
    return [(op, float(x), float(y)) for op, x, y in re.findall(r"([ML])([-\d.]+),([-\d.]+)", path)]


@pytest.mark.parametrize(
    ("lo", "hi", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (19.7, 22, [20, 20.5, 21, 21.5, 22]), (0, 140, [0, 50, 100]), (0, 0, [0])],
)
def test_ticks_are_round(lo: float, hi: float, expected: list[float]) -> None:
    assert ticks(lo, hi) == expected


def test_scales_are_linear_or_logarithmic_and_clip() -> None:
    assert Scale(0, 10, 100, 200)(5) == 150 and Scale(0, 10, 100, 200)(99) == 200
    log = Scale(0.1, 100, 300, 0, log=True)
    assert [log(v) for v in (0, 0.1, 1, 10, 100)] == pytest.approx([300, 300, 200, 100, 0])


def test_an_infinite_run_is_beyond_a_break_and_in_the_quartiles() -> None:
    """Three of five runs are infinite: so are the median and the upper quartile, and no number stands for them."""
    rows = [Dots("a", "a", [10.0, inf, 20.0, inf, inf], inf, 20.0, inf), Dots("b", "b", [10.0, 40.0], 25.0, None, None)]
    svg = parsed(estimate_plot([("", rows)], "ms", "delay", boxes=True, width=620))
    at = [float(it.attrib["cx"]) for it in svg.findall(".//s:circle", NS)]
    assert at[1] == at[3] == at[4] == 620 - 12 and max(at[0], at[2], *at[5:]) < 620 - 12 - 24
    box, _ = svg.findall(".//s:rect", NS)
    assert float(box.attrib["x"]) == at[2] and float(box.attrib["width"]) == pytest.approx(at[1] - at[2], abs=0.1)
    ends = [tick.attrib["x"] for tick in svg.findall(".//s:text[@class='tick x']", NS) if tick.text == "∞"]
    assert [float(x) for x in ends] == [620 - 12 - 4]
    all_lost = [Dots("a", "a", [inf, inf], inf, None, None)]
    assert "nan" not in estimate_plot([("", all_lost)], "ms", "delay", boxes=True)


def test_a_time_plot_shades_phases_and_lifts_the_pen_where_nothing_is_known() -> None:
    panel = Panel("goodput", 100, 10, lines=[Line("who-victim", [(0, 0), (10, 10), (20, None), (30, 5)], "victim")])
    panel.spans.append(("stall", 10, 5, "stall of 5 s & more"))
    panel.names = {"stall": "stall"}
    svg = parsed(time_plot([panel], [("solo-1", "solo", 0, 20), ("<prague>", "contended", 20, 40)], "goodput"))
    assert [entry.attrib["data-name"] for entry in svg.findall("s:g/s:g[@class='entry']", NS)] == ["victim", "stall"]
    shaded = [it for kind in ("solo", "contended") for it in svg.findall(f".//s:rect[@class='phase {kind}']", NS)]
    assert [float(r.attrib["x"]) for r in shaded] == [64, 526] and float(shaded[0].attrib["width"]) == 462
    line = svg.find("s:svg//s:path[@class='line who-victim']", NS)
    assert line is not None
    assert numbers(line.attrib["d"]) == [("M", 64, 132), ("L", 295, 46), ("M", 757, 89)]
    stall = svg.find(".//s:rect[@class='stall who-stall']", NS)
    assert stall is not None and float(stall.attrib["width"]) == 115.5
    assert stall.findtext("s:title", "", NS) == "stall of 5 s & more"
    assert svg.attrib["data-end"] == "40"


def test_labels_are_no_values_to_read_and_lines_of_one_name_share_an_entry() -> None:
    lines = [Line("who-quality thinned", [(0, at), (40, at)], "thinned") for at in (1, 4)]
    rate = Panel("goodput", 100, 4, lines=[Line("who-victim", [(0, 1)])])
    svg = parsed(
        time_plot([Panel("q", 100, 4, [(4, "720p"), (1, "240p")], lines), rate], [("solo", "solo", 0, 40)], "q")
    )
    assert len(svg.findall(".//s:path[@data-name='thinned']", NS)) == 2
    assert len(svg.findall(".//s:g[@data-name='thinned']", NS)) == 1
    assert [panel.get("data-most") for panel in svg.findall("s:g[@class='of']", NS)] == [None, "4"]
    assert [t.text for t in svg.findall(".//s:text[@class='tick y']", NS)][:2] == ["720p", "240p"]


@pytest.mark.parametrize("top", [0.9, 4.3, 43.0, 411.0, 431.5])
def test_an_axis_has_a_value_other_than_zero(top: float) -> None:
    panel = Panel("round-trip time", 80, top, lines=[Line("who-c", [(0, 0), (10, top)])])
    drawn = re.findall(r'<text class="tick y"[^>]*>([^<]*)', time_plot([panel], [("solo", "solo", 0, 10)], "x"))
    assert drawn[-1] == "0" and len(drawn) > 1 and float(drawn[0]) <= top


def test_the_axis_of_a_ccdf_reaches_over_the_plots_below_it() -> None:
    short, long = [(20.0, 100.0), (21.0, 1.0)], [(20.0, 100.0), (75.0, 1.0)]
    assert 'data-hi="21' in ccdf_plot([("L", "solo", short)], "L")
    assert 'data-hi="77' in ccdf_plot([("L", "solo", short)], "L", others=[short, long])


def test_a_ccdf_leaves_out_what_lies_below_its_floor() -> None:
    svg = parsed(ccdf_plot([("prague", "c1", [(20, 100), (25, 10), (30, 0.1), (90, 0.0)])], "rtt"))
    line = svg.find("s:path[@class='line c1']", NS)
    assert line is not None
    points = numbers(line.attrib["d"])
    assert len(points) == 3 and points[0][2] == 12 and points[-1][2] == 320
    assert points[1][2] == pytest.approx(12 + 308 / 3, abs=0.1)
    assert parsed(ccdf_plot([], "nothing measured")).attrib["role"] == "img"


def test_bars_have_lengths_ranges_and_figures_beside() -> None:
    bars = [Bar("c0", 40, 38, 42, 45, "ours"), Bar("c1", 10, 10, 10, None, "theirs <1>")]
    svg = bar_chart([("queue", bars)], "Mbit/s", "rates")
    root = ElementTree.fromstring(svg)
    drawn = [float(e.attrib["width"]) for e in root.iter() if e.attrib.get("class", "").startswith("bar")]
    assert drawn[0] == pytest.approx(4 * drawn[1], rel=0.01)
    kinds = [e.attrib.get("class") for e in root.iter()]
    assert kinds.count("range") == 1 and kinds.count("theirs") == 1
    (tick,) = (float(e.attrib["x1"]) for e in root.iter() if e.attrib.get("class") == "theirs")
    left = next(float(e.attrib["x"]) for e in root.iter() if e.attrib.get("class", "").startswith("bar"))
    assert tick - left == pytest.approx(drawn[0] * 45 / 40, rel=0.01)


def test_a_scatter_has_what_is_infinite_at_its_edge() -> None:
    root = parsed(scatter_plot([Dot("c0", 1, 10, 10, inf, "one"), Dot("c0", 2, inf, 5, inf, "two")], "x", "y", "l"))
    assert [circle.attrib["cy"] for circle in root.findall("s:circle", NS)][1] == "8.0"
    assert "inf" not in "".join(value for line in root.iter() for value in line.attrib.values())
    assert parsed(scatter_plot([Dot("c0", inf, inf, 1, inf, "all")], "x", "y", "l")).findall("s:circle", NS)


def test_a_scatter_of_near_figures_has_several_ticks() -> None:
    root = parsed(scatter_plot([Dot("c0", x, 45.0, 45, 45, "") for x in (44.0, 46.0)], "x", "y", "l"))
    assert [t.text for t in root.findall("s:text[@class='tick x']", NS)] == ["30", "40", "60", "80"]


def test_a_scatter_has_equal_logarithmic_axes_and_their_diagonal() -> None:
    dots = [Dot("c0", x, y, y, y, f"{x} & {y}") for x, y in ((1, 1), (10, 100), (100, 10))]
    root = parsed(scatter_plot([*dots, Dot("hurt", 10, 10, 5, 20, "seeds")], "published", "ours", "D_SS"))
    places = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.findall("s:circle", NS)]
    (one, _), (ten, high), (hundred, low), (_, middle) = places
    assert ten - one == pytest.approx(hundred - ten, abs=0.11), "a decade is as wide as the next"
    assert middle == pytest.approx((places[0][1] + high) / 2, abs=0.11) and middle == low
    diagonal, seeds = root.findall("s:line[@class='range']", NS)
    slope = (float(diagonal.attrib["y1"]) - float(diagonal.attrib["y2"])) / (
        float(diagonal.attrib["x2"]) - float(diagonal.attrib["x1"])
    )
    assert (places[0][1] - high) / 2 == pytest.approx(slope * (ten - one), abs=0.11), "x = y lies on it"
    assert seeds.attrib["x1"] == f"{ten:.1f}"
    assert {t.text for t in root.findall("s:text[@class='tick x']", NS)} == {"1", "2", "5", "10", "20", "50", "100"}
