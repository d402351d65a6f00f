# SPDX-License-Identifier: Apache-2.0
"""Every option beside every service, whatever is watched of it: it takes effect, or it is refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps import SERVICES
from sojourn.apps.base import Mode, ServiceError
from sojourn.apps.credentials import Credentials
from sojourn.apps.meeting import Meeting
from sojourn.apps.standins.profile.recorded import ServiceProfile, profile_text
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import OPTIONS, Options
from sojourn.harness.options.rules import parse_options
from sojourn.harness.options.sources import with_scenario
from tests.unit.apps.recorded.test_recorded import PROFILE

#: A value of each option that is not its default anywhere.
VALUES: dict[str, Any] = {
    "live": True, "video-id": "abcdefghijk", "url": "https://tv.example/other", "script": "FOLDER/play.js",
    "credentials": "FOLDER/account.toml", "browser": "FOLDER/chrome", "profile": "FOLDER/profile",
    "buffer": "7", "max-quality": "480p", "clip": "FOLDER/film.mp4", "ladder": "240p:200k,480p:900k",
    "origin-cc": "reno", "origin-protocol": "h3", "origin-server": "noq", "call-bitrate": "700kbit",
    "call-cc": "scream", "call-ecn": "ect1", "qdisc": "pie", "qdisc-up": "pfifo", "rate": "7mbit", "rate-up": "3mbit",
    "rtt": "33ms", "call-sound": "off", "player": "shaka", "target-latency": "3", "parties": "6", "layers": "svc",
    "game-dscp": "45", "segment": "1s", "sabr-policy": "buffer", "origin-pacing": "sammy",
    "ip-version": "6", "loss": "1%", "jitter": "1ms", "bursts": "2ms-4ms", "exact": True,
    "timeline": "solo:5,reno:7",
    "scenario": "FOLDER/scenario.toml", "contenders": "reno", "driver": "selenium", "recorder": "obs",
    "video": "retain-on-failure",
    "jitter-gate": "9ms", "rpm": "off",
    "lab": "virtual", "lab-file": "FOLDER/lab.toml", "kernel-source": "FOLDER/linux-7.tar.xz",
    "iproute2-source": "FOLDER/tc",
    "engine": "tls://far:8786", "results": "elsewhere", "seed": "77", "repeat": "3",
    "sign": "FOLDER/key",
}  # fmt: skip
LINKS = {"jitsi": "https://meet.example/Room", "meet": "https://meet.google.com/a", "teams": "https://teams.live.com/1"}
OWN = {"profile": "FOLDER/service.toml"}
BASES: dict[Mode, dict[str, Any]] = {
    "stand-in": {},
    "stream": {"lab": "virtual", "url": "https://tv.example/live.m3u8"},
    "own": {"url": "FOLDER/page.html"},
    "live": {"lab": "apu", "live": True, "lab-file": "FOLDER/lab.toml"},
}
#: What a service keeps that is no option's.
_PLAIN = (str, int, float, bool, tuple, list, type(None), type, Credentials, Path, ServiceProfile)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    kept = {"cookies": [{"name": "session", "value": "secret", "domain": "tv.example"}]}
    login = 'user = "ann"\npassword = "secret"\nstorage-state = "state.json"\n'
    for name, text in (("account.toml", login), ("state.json", json.dumps(kept))):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    (folder / "chrome").touch(0o700)
    (folder / "profile").mkdir()
    (folder / "tc").mkdir()
    (folder / "tc/q_mine.c").touch()
    ends = (("client", 1), ("receiver", 3), ("sender", 2))
    hosts = "".join(f'[{name}]\naddress = "10.0.0.{end}"\n' for name, end in ends)
    (folder / "lab.toml").write_text(
        f'[router]\nssh = "apu"\nlan = "a"\nwan = "b"\n{hosts}[server]\naddress = "10.0.0.2"\nnetns = "wan"\n'
    )
    (folder / "linux-7.tar.xz").touch()
    (folder / "film.mp4").touch()
    (folder / "key").touch()
    (folder / "page.html").touch()
    (folder / "service.toml").write_text(profile_text(PROFILE))
    (folder / "play.js").write_text("() => {}")
    (folder / "scenario.toml").write_text('rate = "7mbit"\n')
    return folder


def parsed(folder: Path, given: dict[str, Any]) -> Options:
    texts = {key: text.replace("FOLDER", str(folder)) for key, text in given.items() if isinstance(text, str)}
    return parse_options(with_scenario(given | texts))


def made(options: Options) -> dict[str, Any]:
    """What a service is made of, by what was asked."""
    service = SERVICES[options.service].from_options(options)
    return {key: it for key, it in vars(service).items() if isinstance(it, _PLAIN)}


def test_every_option_has_a_value_here() -> None:
    assert {option.name for option in OPTIONS} == {*VALUES, "service"}


#: What can be watched: each service as its stand-in, or refused, and in the modes that it has options for.
WATCHED = [
    (service, mode)
    for service, kind in SERVICES.items()
    for mode in BASES
    if mode == "stand-in" or any(mode in modes for modes in kind.takes.values())
]


@pytest.mark.parametrize(("service", "mode"), WATCHED)
def test_each_takes_effect_or_is_refused_with_the_reason(
    folder: Path, service: str, mode: Mode, subtests: pytest.Subtests
) -> None:
    """One test a service and mode; a failure names the option."""
    takes = SERVICES[service].takes
    base = {"service": service, **BASES[mode]}
    if mode == "live" and "url" in takes:
        base["url"] = LINKS.get(service, "https://tv.example/channel")
    if mode == "own" and service in OWN:
        base["url"] = OWN[service]
    in_one_page = issubclass(SERVICES[service], Meeting) and mode == "stand-in"
    before = None if in_one_page else parsed(folder, base)
    for name in VALUES:
        with subtests.test(name):
            given = base | {name: VALUES[name]}
            if name == "rpm" and mode in ("stream", "live"):
                given["rpm"] = "on"
            if name == "url" and service in LINKS:
                given["url"] = LINKS[service] + "2"
            if before is None:
                with pytest.raises((OptionsError, ServiceError), match=r"^--[\w-]+: |add --live"):
                    made(parsed(folder, given))
            elif given != base:  # else it is what this mode is
                check_effect(folder, service, name, mode, given, before)


def check_effect(folder: Path, service: str, name: str, mode: Mode, given: dict[str, Any], before: Options) -> None:
    """Assert that one option changes what is made of `before`, or is refused by its name."""
    try:
        after = parsed(folder, given)
    except OptionsError as refused:
        assert refused.code in ("no-effect", "conflict") and "\n" not in str(refused)
        assert refused.option == name or f"--{name}" in str(refused) or {"live", "url", "lab"} & {name}, refused
        return
    takes = SERVICES[service].takes
    if name in takes:
        assert made(after) != made(before)
    else:
        assert after.replace(asked_lab="") != before.replace(asked_lab="")
        assert mode in takes.get(name, (mode,))


def test_through_a_black_box_each_takes_effect_or_is_refused(folder: Path, subtests: pytest.Subtests) -> None:
    base = {"lab": "black-box", "service": "youtube"}
    before = parsed(folder, base).replace(asked_lab="")
    for name, value in VALUES.items():
        with subtests.test(name):
            try:
                after = parsed(folder, base | {name: value})
            except OptionsError as refused:
                assert refused.code in ("no-effect", "conflict") and name in str(refused), refused
            else:
                assert after.replace(asked_lab="") != before


@pytest.mark.parametrize("service", SERVICES)
def test_a_default_that_has_no_effect_is_passed_over(service: str) -> None:
    """A user's own defaults are for all that he watches."""
    own = {name: VALUES[name] for name in ("buffer", "max-quality", "origin-cc", "call-bitrate", "call-cc", "video-id")}
    options = parse_options({"service": service}, own)
    takes = {name for name, modes in SERVICES[service].takes.items() if "stand-in" in modes}
    assert (options.buffer_s == 7) == ("buffer" in takes) and (options.max_quality == 480) == ("max-quality" in takes)
    assert (options.call_cc == "scream") == ("call-cc" in takes)
