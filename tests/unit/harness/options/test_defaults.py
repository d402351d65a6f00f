# SPDX-License-Identifier: Apache-2.0
"""A user's own defaults: which goes before which, and what is wrong with them in one line."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from sojourn.apps.options import Option
from sojourn.hardware.machine.errors import Code
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import OPTIONS
from sojourn.harness.options.rules import parse_options
from sojourn.harness.options.sources import SCENARIOS, user_defaults
from tests.refusals import refusal
from tests.unit.harness.options.refusals import refused

#: user::rw-, user:65534:rw-, group::r--, mask::rw-, other::r-- as the kernel takes it (acl_ea.h).
WRITABLE_BY_65534 = struct.pack("<I" + 5 * "HHI", 2, 1, 6, ANYONE := 0xFFFFFFFF, 2, 6, 65534, 4, 4, ANYONE,
                                16, 6, ANYONE, 32, 4, ANYONE)  # fmt: skip
FILE = """
qdisc = "dualpi2"
rate = "30mbit"
seed = 7
[o2tv]
rate = "25mbit"
"""


def test_the_command_line_goes_before_the_environment_before_the_file_before_the_service(tmp_path: Path) -> None:
    (tmp_path / "sojourn.toml").write_text(FILE)
    defaults = user_defaults({"SOJOURN_QDISC": "pie", "SOJOURN_CACHE": "/x", "OTHER": "1"}, tmp_path)
    rates = {}
    for service in ("youtube", "o2tv", "sledovanitv"):
        options = parse_options({"service": service}, defaults.of(service))
        rates[service] = options.rate_down_bps
        assert (str(options.qdisc_down), options.seed, options.live) == ("pie", 7, False)
    assert rates == {"youtube": 30_000_000, "o2tv": 25_000_000, "sledovanitv": 30_000_000}
    assert parse_options({"service": "o2tv", "rate": "9mbit"}, defaults.of("o2tv")).rate_down_bps == 9_000_000
    assert defaults.lines("o2tv") == [
        f"defaults of {tmp_path / 'sojourn.toml'}: --qdisc=dualpi2 --rate=25mbit --seed=7",
        "defaults of the environment: --qdisc=pie",
    ]


def test_nothing_set_is_no_default(tmp_path: Path) -> None:
    nothing = user_defaults({}, tmp_path)
    assert nothing.of("youtube") == {} and nothing.service is None and nothing.lines("youtube") == []
    (tmp_path / "sojourn.toml").write_text(FILE)
    assert user_defaults({"SOJOURN_DEFAULTS": ""}, tmp_path).of("youtube") == {}
    (tmp_path / "other.toml").write_text('service = "o2tv"\n')
    assert user_defaults({"SOJOURN_DEFAULTS": "other.toml"}, tmp_path).service == "o2tv"


@pytest.mark.parametrize(
    ("text", "option", "code", "mentioned"),
    [
        ("qdsic = 'pie'", "qdsic", "unknown-option", "did you mean qdisc?"),
        ("[youtub]\nrate = '1mbit'", "", "unknown-value", "[youtub]"),
        ("[youtube]\nrat = '1mbit'", "rat", "unknown-option", "[youtube] rat: "),
        ("clip = '../film.mp4'", "clip", "not-from-file", "../film.mp4"),
        ("rate = true", "rate", "invalid-value", "--rate="),
        ("rate = [1]", "rate", "invalid-value", "--rate="),
        ("live = 1", "live", "not-from-file", "SOJOURN_LIVE"),
        ("rate", "", "unreadable-file", "TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, option: str, code: Code, mentioned: str) -> None:
    (tmp_path / "sojourn.toml").write_text(text)
    with refused(option, code, "sojourn.toml: ", mentioned):
        user_defaults({}, tmp_path)


def test_a_file_that_others_write_is_followed_by_name_alone(tmp_path: Path) -> None:
    """Found in the folder where one is called, which may be everybody's, it would run what it says as us."""
    (file := tmp_path / "sojourn.toml").write_text(FILE)
    file.chmod(0o666)
    with refused("", "untrusted-file", "sojourn.toml: everybody can write to it", "chmod o-w", "SOJOURN_DEFAULTS="):
        user_defaults({}, tmp_path)
    assert user_defaults({"SOJOURN_DEFAULTS": str(file)}, tmp_path).of("youtube")["qdisc"] == "dualpi2"
    file.chmod(0o644)
    assert user_defaults({}, tmp_path).of("youtube")["qdisc"] == "dualpi2"
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
        with refused("", "untrusted-file", "sojourn.toml: the file belongs to user 65534", "SOJOURN_DEFAULTS="):
            user_defaults({}, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
def test_a_link_of_somebody_elses_is_not_followed(tmp_path: Path) -> None:
    """In everybody's folder a link may lead to a file of ours that was written for another purpose."""
    (mine := tmp_path / "mine.toml").write_text(FILE)
    (link := tmp_path / "sojourn.toml").symlink_to(mine)
    assert user_defaults({}, tmp_path).of("youtube")["qdisc"] == "dualpi2"
    os.lchown(link, 65534, 65534)
    with refused("", "untrusted-file", "sojourn.toml: the link belongs to user 65534"):
        user_defaults({}, tmp_path)
    mine.unlink()
    os.lchown(link, 0, 0)
    with refused("", "unreadable-file", "sojourn.toml: No such file"):
        user_defaults({}, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other groups")
def test_a_file_that_a_group_writes_is_followed_where_the_group_is_the_users_alone(tmp_path: Path) -> None:
    (file := tmp_path / "sojourn.toml").write_text(FILE)
    file.chmod(0o664)
    assert user_defaults({}, tmp_path).of("youtube")["qdisc"] == "dualpi2"
    os.chown(file, 0, 100)
    with refused("", "untrusted-file", "others in group 100 can write to it", "chmod g-w", "SOJOURN_DEFAULTS="):
        user_defaults({}, tmp_path)
    os.chown(file, 0, 0)
    os.setxattr(file, "system.posix_acl_access", WRITABLE_BY_65534)
    with refused("", "untrusted-file", "others in group 0 can write to it"):
        user_defaults({}, tmp_path)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_file_that_nobody_named_names_no_program_account_or_machine(tmp_path: Path, option: Option) -> None:
    text = option.name + (" = true\n" if option.flag else ' = "site/x"\n')
    if option.name == "scenario":
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "x").touch()
    variable = f"SOJOURN_{option.name.replace('-', '_').upper()}"
    for table in ("", "[o2tv]\n"):
        (file := tmp_path / "sojourn.toml").write_text(table + text)
        by_name = user_defaults({"SOJOURN_DEFAULTS": str(file)}, tmp_path).of("o2tv")
        if option.subject != "who":
            assert user_defaults({}, tmp_path).of("o2tv").keys() == by_name.keys()
            continue
        with refused(option.name, "not-from-file", f"--{option.name}", variable, f"SOJOURN_DEFAULTS={file}"):
            user_defaults({}, tmp_path)
        assert option.name in by_name
    file.unlink()
    value = "1" if option.flag else "site/x"
    assert option.name in user_defaults({variable: value}, tmp_path).of("o2tv")


@pytest.mark.parametrize("where", ["/etc", "../x", "~", "link/x"])
def test_a_file_that_nobody_named_writes_no_results_elsewhere(tmp_path: Path, where: str) -> None:
    (folder := tmp_path / "found").mkdir()
    (folder / "link").symlink_to("/etc")
    (file := folder / "sojourn.toml").write_text(f'results = "{where}"\n')
    with refused("results", "not-from-file", "sojourn.toml: results: ", "--results"):
        user_defaults({}, folder)
    assert user_defaults({"SOJOURN_DEFAULTS": str(file)}, folder).of("youtube")["results"] == where
    file.write_text('results = "mine"\n')
    assert user_defaults({}, folder).of("youtube")["results"] == "mine"


@pytest.mark.parametrize("where", ["/etc/passwd", "../x", "~/x", "link/x", "pipe"])
def test_a_file_that_nobody_named_names_no_scenario_elsewhere(tmp_path: Path, where: str) -> None:
    (folder := tmp_path / "found").mkdir()
    (folder / "link").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    (folder / "sojourn.toml").write_text(f'scenario = "{where}"\n')
    with refused("scenario", "not-from-file", "sojourn.toml: scenario: ", where):
        user_defaults({}, folder)


def test_a_pipe_that_nobody_named_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "sojourn.toml")
    with refused("", "untrusted-file", "sojourn.toml: it is not a plain file"):
        user_defaults({}, tmp_path)


def test_a_file_without_end_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "sojourn.toml").write_text("rate = " + "[" * 5000 + "]" * 5000)
    with refused("", "unreadable-file", "sojourn.toml: ", "TOML", "nested"):
        user_defaults({}, tmp_path)


def test_a_scenario_of_the_users_own_defaults_names_no_program_either(tmp_path: Path) -> None:
    (tmp_path / "evening.toml").write_text('browser = "evil.sh"\n')
    (tmp_path / "mine.toml").write_text('scenario = "evening.toml"\n')
    for environment in ({"SOJOURN_DEFAULTS": "mine.toml"}, {"SOJOURN_SCENARIO": "evening.toml"}):
        with refused("browser", "not-from-file", "evening.toml: browser: "):
            user_defaults(environment, tmp_path)


def test_a_scenario_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "evening.toml").write_text('rate = "4mbit"\nqdisc = "pie"\n')
    (tmp_path / "there" / "mine.toml").write_text('scenario = "evening.toml"\nqdisc = "red"\nclip = "film.mp4"\n')
    set_there = user_defaults({"SOJOURN_DEFAULTS": "there/mine.toml"}, tmp_path).of("youtube")
    assert (set_there["rate"], set_there["qdisc"]) == ("4mbit", "red")
    assert set_there["clip"] == str(tmp_path / "there" / "film.mp4")
    by_name = user_defaults({"SOJOURN_SCENARIO": "there/evening.toml"}, tmp_path)
    assert by_name.of("youtube")["rate"] == "4mbit" and "--rate=4mbit" in by_name.lines("youtube")[0]


def test_a_scenario_with_lists_is_no_default_and_the_advice_works(tmp_path: Path) -> None:
    commands = "`sojourn map --scenario=access-line`", f"`sojourn matrix {SCENARIOS / 'access-line.toml'}`"
    with refused("qdisc", "conflict", "remove SOJOURN_SCENARIO", *commands):
        user_defaults({"SOJOURN_SCENARIO": "access-line"}, tmp_path)
    with refusal(OptionsError, "unreadable-file", "SOJOURN_SCENARIO: "):
        user_defaults({"SOJOURN_SCENARIO": "acess-line"}, tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("rate", "10", "invalid-value"), ("service", "youtub", "unknown-value"), ("lab", "nowhere", "unknown-value"),
        ("contenders", "cubicc", "invalid-value"), ("timeline", "cubic:4", "invalid-value"),
        ("qdisc", "pie target", "invalid-value"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_the_environment_names_its_variable(tmp_path: Path, name: str, value: str, code: Code) -> None:
    defaults = user_defaults({f"SOJOURN_{name.upper()}": value}, tmp_path)
    with refusal(OptionsError, code, f"SOJOURN_{name.upper()}: "):
        parse_options({"service": defaults.service}, defaults.of("iptv"))


def test_a_file_or_a_flag_that_is_none_is_named(tmp_path: Path) -> None:
    with refused("", "unreadable-file", "nowhere.toml: No such file"):
        user_defaults({"SOJOURN_DEFAULTS": "nowhere.toml"}, tmp_path)
    with pytest.raises(OptionsError, match=r"^SOJOURN_LIVE=maybe: "):
        user_defaults({"SOJOURN_LIVE": "maybe"}, tmp_path)
    assert user_defaults({"SOJOURN_LIVE": "1"}, tmp_path).of("youtube") == {"live": True}
