# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from math import inf
from xml.etree import ElementTree

from sojourn.harness.report.scheme_plot import Scheme, scheme_plot


def drawn(*schemes: Scheme) -> str:
    svg = scheme_plot(schemes, "delay (ms)", "Mbit/s", "schemes")
    ElementTree.fromstring(svg)
    return svg


def points(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle [^>]*cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_less_delay_is_right_and_more_throughput_above() -> None:
    quick, slow = points(drawn(Scheme("quick", "c0", 30, 8, ""), Scheme("slow", "c0", 600, 4, "")))
    assert quick[0] > slow[0] and quick[1] < slow[1]


def test_the_axis_of_delay_is_logarithmic() -> None:
    xs = sorted(x for x, _ in points(drawn(*(Scheme(f"{ms}", "c0", ms, 5, "") for ms in (10, 100, 1000)))))
    assert abs((xs[1] - xs[0]) - (xs[2] - xs[1])) < 0.2


def test_names_do_not_cover_each_other() -> None:
    svg = drawn(*(Scheme(f"scheme{n}", "c0", 50 + n * 0.1, 9, "a & b") for n in range(4)))
    lines = [float(y) for y in re.findall(r'text-anchor:[a-z]+" x="[\d.]+" y="([\d.]+)">scheme', svg)]
    assert len(lines) == 4 and all(abs(a - b) >= 12 for a in lines for b in lines if a is not b and a != b)
    assert len(set(lines)) == 4 and "a &amp; b" in svg


def test_schemes_that_lost_too_much_for_a_delay_are_counted() -> None:
    lost = [Scheme(name, "c0", inf, 3, f"{name}: a & b") for name in ("one", "other")]
    svg = drawn(Scheme("quick", "c0", 30, 8, ""), *lost)
    assert len(points(svg)) == 1 and "2 not drawn: lost<title>one: a &amp; b; other: a &amp; b</title>" in svg
    assert points(drawn(*lost)) == [] and "not drawn" not in drawn(Scheme("quick", "c0", 30, 8, ""))


def test_a_crowd_is_named_in_a_block_below_it() -> None:
    crowd = [Scheme(f"scheme-{n}", "c0", 500 + n, 9, "") for n in range(12)]
    svg = drawn(*crowd, Scheme("published", "c1", 505, 9, ""), Scheme("quick", "c0", 30, 9, ""))
    texts = re.findall(r'<text class="tick" style="[^"]*" x="[\d.]+" y="([\d.]+)">([^<]+)', svg)
    block = [(float(y), text) for y, text in texts if "scheme-" in text]
    assert ", ".join(text.rstrip(",") for _, text in block) == ", ".join(scheme.name for scheme in reversed(crowd))
    assert all(y > points(svg)[0][1] + 10 for y, _ in block) and 2 <= len(block) < 6, "below the points, in few lines"
    assert {"published", "quick"} <= {text for _, text in texts}, "what is alone has a name of its own"
