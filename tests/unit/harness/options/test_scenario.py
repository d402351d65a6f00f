# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.apps.options import Option
from sojourn.hardware.machine.errors import Code
from sojourn.harness.options.model import OPTIONS, Options
from sojourn.harness.options.rules import parse_options
from sojourn.harness.options.sources import (
    EVERY_PLAYER,
    SCENARIOS,
    combined,
    read_scenario,
    with_scenario,
    with_scenarios,
)
from tests.unit.harness.options.refusals import refused

HOUSEHOLD = 'service = "iptv"\nrate = "20mbit,30s:5mbit"\nloss = "0.1%"\ncontenders = "cubic*4,prague+cubic@up"\n'


def scenario(folder: Path, text: str = HOUSEHOLD) -> Path:
    (file := folder / "household.toml").write_text(text)
    return file


def test_what_is_given_beside_it_goes_before(tmp_path: Path) -> None:
    scenario(tmp_path)
    given = with_scenario({"scenario": "household.toml", "rate": "9mbit", "rtt": None, "lab": "virtual"}, tmp_path)
    options = parse_options(given)
    assert (options.service, options.rate_down_bps, options.rate_steps, options.lab) == (
        "iptv",
        9_000_000,
        (),
        "virtual",
    )
    assert options.loss_percent == 0.1 and given["rtt"] is None
    assert [phase.contender for phase in options.phases if phase.contender] == ["cubic*4", "prague+cubic@up"]


def test_a_timeline_that_names_its_loads_takes_the_place_of_its_contenders(tmp_path: Path) -> None:
    scenario(tmp_path)
    given = {"scenario": "household.toml", "timeline": "solo:10,cubic+web*2:10"}
    options = parse_options(with_scenario(given, tmp_path))
    assert [phase.contender for phase in options.phases] == [None, "cubic+web*2"]
    assert (options.service, options.loss_percent) == ("iptv", 0.1)
    assert (options.rate_down_bps, options.rate_steps) == (20_000_000, ()), "30 s are beyond its 20 s"
    given["timeline"] = "solo:10,cubic:25"
    options = parse_options(with_scenario(given, tmp_path))
    assert [step.at_s for step in options.rate_steps] == [30]
    for name, beside in (("published", 120), ("short", 40)):
        options = parse_options(with_scenario(given | {"timeline": name}, tmp_path))
        loads = [(phase.contender, phase.seconds) for phase in options.phases if phase.contender]
        assert loads == [("cubic*4", beside), ("prague+cubic@up", beside)]
    # Fewer contenders make a named timeline shorter, too.
    (tmp_path / "household.toml").write_text('rate = "20mbit,150s:5mbit"\ncontenders = "cubic,reno"\n')
    options = parse_options(with_scenario({"scenario": "household.toml", "contenders": "bbr"}, tmp_path))
    assert options.seconds == 120 and options.rate_steps == ()


@pytest.mark.parametrize(
    ("text", "given", "option", "code", "where"),
    [
        ('timeline = "solo:5,reno:9"', {"contenders": "bbr"}, "contenders", "conflict", "--contenders: the"),
        ('timeline = "solo:5,reno:9"\ncontenders = "bbr"', {}, "contenders", "conflict", "FILE: contenders: the"),
        ('rate = "20mbit,190s:5mbit"', {}, "rate", "out-of-range", "FILE: rate: "),
        ('rate = "20mbit,9s:5mbit,8s:9mbit"', {"timeline": "solo:5,reno:9"}, "rate", "out-of-range", "FILE: rate: "),
        ('qdisc = "pii"', {}, "qdisc", "invalid-value", "FILE: qdisc: "),
        ('contenders = "cubik"', {}, "contenders", "invalid-value", "FILE: contenders: "),
        ('timeline = "solo:5,cubik:9"', {}, "timeline", "invalid-value", "FILE: timeline: "),
        ('timeline = "cubic:9"', {}, "timeline", "invalid-value", "FILE: timeline: "),
        ('service = "cal"', {}, "service", "unknown-value", "FILE: service: "),
        ('service = "call"\nbuffer = 9', {}, "buffer", "no-effect", "FILE: buffer: "),
        ("loss = 30", {"loss": "much"}, "loss", "invalid-value", "--loss: "),
    ],
)  # fmt: skip
def test_a_refusal_names_who_gave_the_value(
    tmp_path: Path, text: str, given: dict[str, str], option: str, code: Code, where: str
) -> None:
    file = scenario(tmp_path, text)
    with refused(option, code, where.replace("FILE", str(file))):
        parse_options(with_scenario(given | {"scenario": file}))


@pytest.mark.parametrize(("name", "seconds"), [("household", 240), ("household-short", 46)])
def test_an_included_scenario_is_named_without_its_path(tmp_path: Path, name: str, seconds: int) -> None:
    options = parse_options(with_scenario({"scenario": name}, tmp_path))
    assert len(options.rate_steps) == 1 and options.seconds == seconds
    shorter = parse_options(with_scenario({"scenario": name, "timeline": "solo:20,cubic:20"}, tmp_path))
    assert shorter.seconds == 40
    (tmp_path / name).write_text('rate = "7mbit"')
    assert with_scenario({"scenario": name}, tmp_path)["rate"] == "7mbit", "your own file of that name comes first"


@pytest.mark.parametrize("file", sorted(SCENARIOS.iterdir()), ids=lambda it: it.stem)
def test_every_included_scenario_can_be_run(file: Path) -> None:
    for _, table in combined(with_scenarios({"scenario": file.stem})):
        assert any(phase.contender for phase in parse_options(table).phases)


@pytest.mark.parametrize("name", ["no-such-home", "../scenarios/household", "household/"])
def test_only_a_name_leads_to_the_included_scenarios(tmp_path: Path, name: str) -> None:
    with refused("scenario", "unreadable-file", "no included scenario and no file"):
        with_scenario({"scenario": name}, tmp_path)


def test_a_list_is_refused_for_a_run_unless_the_option_is_given(tmp_path: Path) -> None:
    file = scenario(tmp_path, 'rate = ["5mbit", "9mbit"]')
    with refused("rate", "conflict", f"{file}: rate: ", "sojourn map --scenario="):
        with_scenario({"scenario": file})
    assert with_scenario({"scenario": file, "rate": "7mbit"})["rate"] == "7mbit"


def test_without_one_nothing_changes() -> None:
    assert with_scenario({"rate": "9mbit", "scenario": None}) == {"rate": "9mbit", "scenario": None}


def test_an_option_of_it_that_cannot_take_effect_is_refused(tmp_path: Path) -> None:
    given = with_scenario({"scenario": scenario(tmp_path, 'service = "call"\nbuffer = 9\n')})
    with refused("buffer", "no-effect", "household.toml: buffer: "):
        parse_options(given)


@pytest.mark.parametrize(
    ("text", "option", "code"),
    [
        ('driver = "selenium"', "driver", "not-from-file"),
        ('lab = "virtual"', "lab", "not-from-file"),
        ('repeat = "5"', "repeat", "not-from-file"),
        ('scenario = "other.toml"', "scenario", "not-from-file"),
        ("live = true", "live", "not-from-file"),
        ('rat = "5mbit"', "rat", "unknown-option"),
        ("rate = true", "rate", "invalid-value"),
        ("rate = []", "rate", "invalid-value"),
        ('rate = ["5mbit", "9mbit"]', "rate", "conflict"),
        ("rate", "", "unreadable-file"),
    ],
)
def test_what_is_no_scenario_is_refused_by_name(tmp_path: Path, text: str, option: str, code: Code) -> None:
    file = scenario(tmp_path, text)
    with refused(option, code, f"{file}: {option}", f"--{option}" if code == "not-from-file" else ""):
        with_scenario({"scenario": file})


def test_a_missing_one_is_told(tmp_path: Path) -> None:
    for name, hint in (("none.toml", "included: access-line, "), ("access_line", "did you mean access-line?")):
        with refused("scenario", "unreadable-file", f'--scenario: no included scenario and no file "{name}"; {hint}'):
            with_scenario({"scenario": name}, tmp_path)


def test_a_path_in_it_is_relative_to_it(tmp_path: Path) -> None:
    values = read_scenario(scenario(tmp_path, 'clip = "film.mp4"\nurl = ["site/index.html", "https://a.example/"]'))
    assert values == {
        "clip": str(tmp_path / "film.mp4"), "url": [str(tmp_path / "site" / "index.html"), "https://a.example/"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/etc/passwd", "not-from-file"),
        ("../secret/film.mp4", "not-from-file"),
        ("~/film.mp4", "not-from-file"),
        ("~nobody-of-that-name/x", "invalid-value"),
        ("site/../../secret/film.mp4", "not-from-file"),
        ("link/film.mp4", "not-from-file"),
        ("film\\u0000.mp4", "invalid-value"),
    ],
)
def test_a_path_in_it_stays_in_its_folder(tmp_path: Path, path: str, code: Code) -> None:
    """Whoever wrote it shall see no file but those that came with it."""
    for folder in ("given", "secret"):
        (tmp_path / folder).mkdir()
    (tmp_path / "secret" / "film.mp4").touch()
    (tmp_path / "given" / "link").symlink_to(tmp_path / "secret")
    for name in ("clip", "url"):
        with refused(name, code, f"household.toml: {name}: "):
            read_scenario(scenario(tmp_path / "given", f'{name} = "{path}"'))


def test_a_page_next_to_it_is_refused_for_all_that_is_there_would_be_served(tmp_path: Path) -> None:
    with refused("url", "not-from-file", "would serve all files next to it"):
        read_scenario(scenario(tmp_path, 'url = "index.html"'))
    assert read_scenario(scenario(tmp_path, 'clip = "film.mp4"')) == {"clip": str(tmp_path / "film.mp4")}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_it_has_what_is_measured_and_no_other_option(tmp_path: Path, option: Option) -> None:
    file = scenario(tmp_path, option.name + (" = true" if option.flag else ' = "site/x"'))
    if option.subject in ("what", "content"):
        assert list(read_scenario(file)) == [option.name]
        return
    with refused(option.name, "not-from-file", f"household.toml: {option.name}: ", f"give --{option.name} on"):
        read_scenario(file)


def test_what_names_a_file_or_an_address_of_the_users_is_no_scenarios() -> None:
    """An option that is parsed to a path is a program, an account or a machine, unless it is played or written."""
    paths = [option for option in OPTIONS if "Path" in str(Options.model_fields[option.field].annotation)]
    assert len(paths) == 11
    assert {option.name for option in paths if option.subject != "who"} == {"clip", "results", "scenario"}
    assert {option.subject for option in OPTIONS if option.group == "lab"} == {"who"}


ACCOUNTS = [
    ({"credentials": "mine.toml"}, {}, "--credentials"),
    ({"profile": "mine"}, {}, "--profile"),
    ({}, {"SOJOURN_IPTV_USER": "ann", "SOJOURN_IPTV_PASSWORD": "x"}, "SOJOURN_IPTV_USER, SOJOURN_IPTV_PASSWORD"),
    ({}, {"SOJOURN_IPTV_COOKIE": "session=1"}, "SOJOURN_IPTV_COOKIE"),
]


@pytest.mark.parametrize(("given", "environment", "named"), ACCOUNTS)
def test_an_account_goes_to_no_site_that_only_a_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], environment: dict[str, str], named: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    file = scenario(tmp_path, 'service = "iptv"\nurl = "https://evil.example/"')
    asked = {"lab": "virtual", "live": True, "scenario": str(file), **given}
    with refused("url", "confirm-account", file, named, "--url=https://evil.example/"):
        parse_options(with_scenario(asked))
    confirmed = with_scenario(asked | {"url": "https://evil.example/"})
    assert parse_options(confirmed).url == "https://evil.example/"


def test_a_site_of_a_file_without_an_account_is_opened(tmp_path: Path) -> None:
    file = scenario(tmp_path, 'service = "iptv"\nurl = "https://tv.example/"')
    asked = {"lab": "virtual", "live": True, "scenario": str(file)}
    assert parse_options(with_scenario(asked)).url == "https://tv.example/"


def test_lists_are_combined_in_their_order() -> None:
    every = list(combined({"a": ["1", "2"], "b": "x", "c": ["3", "4"]}))
    assert [chosen for chosen, _ in every] == [["1", "3"], ["1", "4"], ["2", "3"], ["2", "4"]]
    assert every[1][1] == {"a": "1", "b": "x", "c": "4"}


def test_a_run_has_one_player() -> None:
    with refused("player", "conflict", "--player=all: ", "`sojourn map`"):
        with_scenario({"player": EVERY_PLAYER})
