# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from apps import SERVICES
from harness.experiment.options import OptionsError, parse_options
from harness.experiment.scenario import combined, read_scenario, with_scenario

HOUSEHOLD = 'service = "iptv"\nrate = "20mbit,30s:5mbit"\nloss = "0.1%"\ncontenders = "cubic*4,prague+cubic@up"\n'


def scenario(folder: Path, text: str = HOUSEHOLD) -> Path:
    (file := folder / "household.toml").write_text(text)
    return file


def test_what_is_given_beside_it_goes_before(tmp_path: Path) -> None:
    scenario(tmp_path)
    given = with_scenario({"scenario": "household.toml", "rate": "9mbit", "rtt": None, "lab": "virtual"}, tmp_path)
    options = parse_options(given, SERVICES)
    assert (options.service, options.rate_down_bps, options.rate_steps, options.lab) == (
        "iptv",
        9_000_000,
        (),
        "virtual",
    )
    assert options.loss_percent == 0.1 and given["rtt"] is None
    assert [phase.contender for phase in options.phases if phase.contender] == ["cubic*4", "prague+cubic@up"]


def test_without_one_nothing_changes() -> None:
    assert with_scenario({"rate": "9mbit", "scenario": None}) == {"rate": "9mbit", "scenario": None}


def test_an_option_of_it_that_cannot_take_effect_is_refused(tmp_path: Path) -> None:
    given = with_scenario({"scenario": scenario(tmp_path, 'service = "call"\nbuffer = 9\n')})
    with pytest.raises(OptionsError, match="--buffer: has no effect on --service=call"):
        parse_options(given, SERVICES)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('lab = "virtual"', r"lab: says where it runs or what becomes of it, not what it is; give --lab$"),
        ('repeat = "5"', "repeat: says where it runs"),
        ('scenario = "other.toml"', "scenario: "),
        ('rat = "5mbit"', r"rat: no option; did you mean rate\?"),
        ("rate = true", "rate: give a text in quotes"),
        ('live = "yes"', "live: give true or false"),
        ("rate = []", "rate: an empty list"),
        ('rate = ["5mbit", "9mbit"]', "rate: a run has one; give one here, or run `sojourn matrix .*household.toml`"),
        ("rate", "no TOML"),
    ],
)
def test_what_is_no_scenario_is_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(OptionsError, match=why) as refused:
        with_scenario({"scenario": scenario(tmp_path, text)})
    assert str(refused.value).startswith(f"{tmp_path}/household.toml: ")


def test_a_missing_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=r"none\.toml: No such file"):
        with_scenario({"scenario": "none.toml"}, tmp_path)


def test_a_path_in_it_is_relative_to_it(tmp_path: Path) -> None:
    values = read_scenario(scenario(tmp_path, 'credentials = "account.toml"\nprofile = "mine"'))
    assert values == {"credentials": str(tmp_path / "account.toml"), "profile": str(tmp_path / "mine")}


def test_lists_are_combined_in_their_order() -> None:
    every = list(combined({"a": ["1", "2"], "b": "x", "c": ["3", "4"]}))
    assert [chosen for chosen, _ in every] == [["1", "3"], ["1", "4"], ["2", "3"], ["2", "4"]]
    assert every[1][1] == {"a": "1", "b": "x", "c": "4"}
