# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from sojourn.harness.report.palette import LOOKS, colours, looks, sheet, who
from sojourn.traffic.load import KNOWN
from tests.unit.harness.report.test_headline import contrast


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("prague", "who-prague"),
        ("prague-2", "who-prague"),
        ("prague-2020", "who-prague variant"),
        ("cubic-noecn", "who-cubic variant"),
        ("1 prague 20 ms up", "who-prague"),
        ("CUBIC", "who-cubic"),
        ("solo", "who-alone"),
        ("C queue", "who-c"),
        ("ECT(1)", "who-l"),
        ("web*3+cubic", "who-web"),
    ],
)
def test_everyone_is_known_by_name(name: str, kind: str) -> None:
    assert who(name) == kind


def test_an_unknown_name_has_one_look_and_no_markup() -> None:
    for name in (*KNOWN, '"><script>', "C", "", "\udcff".encode("utf-8", "surrogatepass").decode("latin-1")):
        assert re.fullmatch(r"who-[a-z0-9-]+( variant)?", who(name)) and who(name) == who(name)


def test_series_of_one_plot_differ() -> None:
    assert looks(["flow 1", "flow 2"]) == ["who-other-1", "who-other-2"]
    assert looks(["prague", "prague-2020", "prague", "cubic"]) == [
        "who-prague", "who-prague dash-1", "who-prague dash-2", "who-cubic",
    ]  # fmt: skip
    assert len(set(looks(["reno"] * 5))) == 5


def test_a_line_stands_out_on_either_paper() -> None:
    for dark, paper in ((False, "#ffffff"), (True, "#0f1318")):
        assert {name for name, colour in colours(dark).items() if contrast(colour, paper) < 3} == set()


def test_each_contender_of_the_published_tests_has_a_colour_of_its_own() -> None:
    named = ("victim", "cubic", "prague", "bbr", "reno", "dctcp", "l", "c", "quality", "stall")
    assert len({LOOKS[name].light for name in named}) == len({LOOKS[name].dark for name in named}) == len(named)
    assert sheet().count("--who-victim:") == 2
