# SPDX-License-Identifier: Apache-2.0
"""Thresholds are parsed without guessing, and judged by the figures over all runs."""

from __future__ import annotations

import re

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.scoring.schema.metric import HARM
from sojourn.scoring.statistics.intervals import estimate
from sojourn.scoring.statistics.summary import ExperimentSummary, Figure, PairedContrast
from sojourn.scoring.statistics.thresholds import KNOWN, ThresholdError, judge, parse, require_known


def summary() -> ExperimentSummary:
    def figure(metric: str, **beside: list[float]) -> Figure:
        known = {name: estimate(values) for name, values in beside.items()}
        return Figure(metric=metric, better="less", alone=estimate([4.0]), contended=known, contrast={})

    return ExperimentSummary(
        valid=["a", "b", "c", "d", "e"], void={}, contenders=["cubic", "prague"], reference="cubic",
        fair_share_mbps=None,
        own_kind="cubic",
        measured=[figure("stalls", cubic=[0.0] * 5, prague=[0.0, 1.0, 0.0, 1.0, 0.0])],
        harm=[figure("rtt_p50_ms", cubic=[0.1, 0.2, 0.1, 0.2, 0.1], prague=[0.25, 0.35, 0.25, 0.35, 0.25]).model_copy(
            update={"beyond": {"prague": PairedContrast(**estimate([0.15] * 5).model_dump(), mde=None)}}
        )],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "outcomes"),
    [
        ("stalls == 0", {"cubic": "met", "prague": "not met"}),
        ("stalls with cubic == 0", {"cubic": "met"}),
        ("stalls alone <= 4", {"alone": "met"}),
        ("stalls alone < 4", {"alone": "not met"}),
        ("harm.rtt_p50_ms < 0.3", {"cubic": "met", "prague": "met"}),
        ("harm.rtt_p50_ms with bbr<0.3", {"bbr": "no figure"}),
        (
            "harm.rtt_p50_ms <= bar",
            {"prague": "not met"},
        ),  # CUBIC is the victim's own kind, whose harm is the bar
        ("harm.rtt_p50_ms with bbr <= bar", {"bbr": "no figure"}),
        ("fps >= 29", {"cubic": "no figure", "prague": "no figure"}),
    ],
)
def test_each_place_has_its_outcome(text: str, outcomes: dict[str, str]) -> None:
    assert {it.where: it.outcome for it in judge([parse(text)], summary())} == outcomes


def test_a_threshold_without_a_figure_says_why() -> None:
    (one, other) = judge([parse("fps >= 29")], summary(), sure=True)
    assert one.text == "no figure: no valid run has fps with cubic" and other.why == "no valid run has fps with prague"
    (alone,) = judge([parse("fps alone >= 29")], summary())
    assert alone.why == "no valid run has fps alone"
    cell = summary().model_copy(update={"contenders": []})
    assert [it.why for it in judge([parse("fps >= 29")], cell)] == ["no valid run has fps"]


def test_a_limit_may_have_an_exponent() -> None:
    assert [parse(f"stalls <= {limit}").limit for limit in ("1e-1", "-2.5E+2")] == [0.1, -250.0]


def test_who_wants_to_be_sure_asks_the_whole_interval() -> None:
    demanded = [parse("harm.rtt_p50_ms < 0.3")]
    assert [it.text for it in judge(demanded, summary(), sure=True)] == [
        "met", "not decided: the interval includes the limit",
    ]  # fmt: skip
    assert [it.outcome for it in judge([parse("harm.rtt_p50_ms < 0.4")], summary(), sure=True)] == [
        "met",
        "met",
    ]
    of_one_run = parse("stalls alone < 9")
    assert [it.text for it in judge([of_one_run], summary(), sure=True)] == ["not decided: 1 run, 5 needed"]
    assert [it.text for it in judge([parse("stalls alone > 9")], summary(), sure=True)] == [
        "not decided: 1 run, 5 needed"
    ]
    assert [it.text for it in judge([parse("harm.rtt_p50_ms > 0.4")], summary(), sure=True)] == ["not met"] * 2
    assert [it.outcome for it in judge([of_one_run], summary())] == ["met"]


@pytest.mark.parametrize(
    ("compare", "low", "high", "met"),
    [
        ("<", 1, 2, True), ("<", 3, 4, False), ("<", 2, 4, None), ("<", 2, 3, None), ("<=", 2, 3, True),
        (">=", 3, 4, True), (">", 3, 4, None), ("==", 3, 3, True), ("==", 3, 4, None), ("==", 2, 4, None),
        ("==", 4, 5, False), ("!=", 4, 5, True), ("!=", 2, 4, None), ("!=", 3, 3, False),
    ],
)  # fmt: skip
def test_an_interval_meets_a_threshold_as_a_whole_or_decides_nothing(
    compare: str, low: float, high: float, met: bool | None
) -> None:
    assert parse(f"stalls {compare} 3").meets_all(low, high) is met


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stall == 0", "unknown figure 'stall'; did you mean stalls"),
        ("harm.p99 < 0.3", "unknown figure 'harm.p99'; did you mean harm"),
        ("harm.fps alone < 1", "needs a contender"),
        ("fps < bar", "write harm.fps"),
        ("stalls beside cubic == 0", "write it as"),
        ("stalls = 0", "write it as"),
        ("harm.rtt_p99_ms < 0.3", "write harm.rtt_answered_p99_ms$"),
        ("harm.ect1_rtt_p99_ms with prague < 0.3", "write harm.ect1_rtt_answered_p99_ms$"),
        ("stalls < nan", "write it as"),
        ("__import__('os') < 1", "write it as"),
        ("", "write it as"),
    ],
)
def test_what_cannot_be_judged_is_refused(text: str, says: str) -> None:
    with pytest.raises(ThresholdError, match=says) as wrong:
        parse(text)
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize("load", ["bbr*2", "prague+cubic@up", "program:quic-bbr3*8", "program:mine.toml"])
def test_a_load_can_be_named(load: str) -> None:
    threshold = parse(f"harm.played_height with {load} < 0.3")
    assert threshold.where == load.replace("program:", "program_").removesuffix(".toml")
    require_known([threshold], [])


@pytest.mark.parametrize(("load", "says"), [("foo", "unknown contender 'foo'"), ("cubic*0", "is not a flow")])
def test_a_contender_is_one_of_the_runs_or_known_here(load: str, says: str) -> None:
    threshold = parse(f"stalls with {load} == 0")
    with pytest.raises(ThresholdError, match=says):
        require_known([threshold], [summary()])
    require_known([threshold], [summary(), summary().model_copy(update={"contenders": [load]})])  # made elsewhere


def test_every_figure_can_be_demanded() -> None:
    assert [parse(f"{name} < 1").metric for name in KNOWN] == list(KNOWN)


def test_the_documentation_lists_every_figure() -> None:
    text = (CHECKOUT / "docs/pipelines.md").read_text()
    lists = re.findall(r"^- \*(.+?)\*: (.+)$", text, re.MULTILINE)
    named = set()
    for kind, listed in lists:
        words = re.findall(r"`([a-z0-9_]+)`", listed)
        prefix = HARM if kind == "Harm" else ""
        named |= {f"{prefix}{word}" for word in words if word != "ect1_"}
        marked = [word for word in words if word.startswith("rtt") or word == "answered_share"]
        named |= {f"{prefix}ect1_{word}" for word in marked}
    assert named == set(KNOWN)
