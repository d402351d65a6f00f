# SPDX-License-Identifier: Apache-2.0
"""Which options can be combined, and which have no effect; from texts to the options of a run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar

from sojourn.apps import SERVICES
from sojourn.apps.base import Mode
from sojourn.apps.credentials import account_variables
from sojourn.apps.options import CMCD_PLAYERS, LOW_LATENCY_PLAYERS, SCREENING, BadValue, Option, existing
from sojourn.apps.standins.origin import QUIC_CONTROLS
from sojourn.apps.two_party import TwoParty
from sojourn.bottleneck.qdiscs.own import OwnQdisc
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.units import format_rate, format_time
from sojourn.hardware.lab.lab_file import BOX_LAB, PHYSICAL, ROUTER_LAB
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.messages import did_you_mean
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import ALL, BY_NAME, ELSEWHERE, NO_VIDEO, OPTIONS, Options
from sojourn.harness.options.own_names import OwnNames, own_names
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.options.timeline import LONGER_S, TIMELINES, Phase, parse_timeline
from sojourn.scoring.statistics.harm import SHORTEST_S, recovery_s, solo_windows
from sojourn.traffic.load import GAME, RPM, VIDEO, parse_load
from sojourn.traffic.rpm_flow import CONTROL
from sojourn.traffic.user_program import (
    DEFAULT_TCP_ECN,
    OPTION,
    UserProgram,
    UserProgramError,
    defined,
    read_user_program,
)

T = TypeVar("T")

WITH_COMMAS = ("ladder", "timeline")
"""Options of which any value may have commas."""
WITH_STEPS = ("rate", "rate-up")
"""Options whose values may be schedules, which have commas."""
_PARAMETERS = re.compile(r"\s.*")
PROGRAM = re.compile(rf"(?<![\w.-]){OPTION}([^,+*@:\s]+)")
"""A program of the user's in a load: its file, or the name of a built-in program."""

_WITH_INTERNET = "--lab=virtual or --lab=apu"
#: The option that always applies to the relay of a virtual lab's uplink.
_RELAYED = "origin-cc"
#: The server of HTTP/3 whose congestion control can be chosen.
_NOQ = "noq"
#: What a black box decides by itself; a user may state its rates.
_DECIDED, _STATED = ("qdisc", "qdisc-up", "rtt", "loss", "jitter", "bursts"), WITH_STEPS
#: Options that need an origin of Sojourn's over HTTP/1.1.
_HTTP1_ORIGINS = {
    "target-latency": "the origin of a broadcast with low latency",
    "origin-pacing": "the origin that paces its answers",
}
_MODES: dict[Mode, str] = {
    "stand-in": "a stand-in",
    "own": "your own folder (--url=FOLDER/…)",
    "stream": "an address (--url=https://…)",
    "live": "the real service (--live)",
}


class _Sourced(str):
    """An option's value, and the file or the variable that sets it."""

    source: Path | str

    def __new__(cls, value: str, source: Path | str) -> Self:
        text = super().__new__(cls, value)
        text.source = source
        return text


class FromFile(_Sourced):
    """An option's value from a scenario or a defaults file that the user did not name explicitly."""


class FromEnvironment(_Sourced):
    """An option's value from the environment."""


def where_set(name: str, value: Any) -> str:
    """Return an option's name in errors: with the file that sets it, its variable, or as on the command line."""
    if isinstance(value, FromFile):
        return f"{value.source}: {name}"
    return str(value.source) if isinstance(value, FromEnvironment) else f"--{name}"


class RawOptions:
    """The options of a run before they are parsed: their texts, the service, its mode and the lab."""

    def __init__(self, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self.named = {name: value for name, value in given.items() if value is not None}
        self.known = {**defaults, **self.named}
        self.raw: dict[str, Any] = {option.name: option.default for option in OPTIONS} | self.known
        if self.raw["service"] == ALL:
            why = f"{ALL} makes the published runs one by one, which no map or plan does; name one service"
            raise self.refused("service", why, BadValue("unsupported", why))
        victim = SERVICES.get(str(self.raw["service"]))
        self.raw |= {n: text for n, text in (victim.defaults if victim else {}).items() if n not in self.known}
        self.lab = self.chosen("lab") if self.raw["lab"] else "sim"
        self.service = self.chosen("service", SERVICES)
        self.takes = SERVICES[self.service].takes
        if "live" not in self.takes and "live" not in self.named:
            self.raw["live"] = False
        self.live = bool(self.raw["live"])
        self.mode = self._mode()

    def _mode(self) -> Mode:
        of_url = self.takes.get("url", ())
        if self.live or not (self.raw["url"] and of_url):
            return "live" if self.live else "stand-in"
        return "own" if "own" in of_url and "://" not in str(self.raw["url"]) else "stream"

    def where(self, name: str) -> str:
        """Return an option's name in errors (`where_set`)."""
        return where_set(name, self.known.get(name, self.raw[name]))

    def refused(self, name: str, why: str, wrong: ValueError | None = None) -> OptionsError:
        """Return the error for an option's value, with the code of the parser's error `wrong`."""
        code = wrong.code if isinstance(wrong, BadValue) else "invalid-value" if wrong else "conflict"
        return OptionsError(f"{self.where(name)}: {why}", code=code, option=name)

    @property
    def timeline(self) -> str:
        """Return the timeline's name in errors."""
        value = self.raw["timeline"]
        return f"the timeline of {value.source}" if isinstance(value, FromFile) else self.where("timeline")

    def cut_short(self, name: str) -> bool:
        """Whether a file sets an option but not the timeline: after the timeline's end, the option has no effect."""
        value = self.raw[name]
        given = (self.known[it] for it in ("timeline", "contenders") if it in self.known)
        return isinstance(value, FromFile) and any(
            not isinstance(it, FromFile) or it.source != value.source for it in given
        )

    def parsed(self, name: str, parser: Callable[[str], T]) -> T:
        """Return an option's value. Raises OptionsError."""
        text = str(self.raw[name])
        try:
            return parser(text)
        except ValueError as wrong:
            raise self.refused(name, f"{wrong}{_map_of(name, text)}", wrong) from wrong

    def chosen(self, name: str, choices: Iterable[str] = ()) -> str:
        """Return the text of an option that is one of its choices. Raises OptionsError."""
        text, known = str(self.raw[name]), list(choices or BY_NAME[name].choices)
        if text not in known:
            hint = "; ".join(filter(None, (f"known: {', '.join(known)}", did_you_mean(text, known))))
            raise OptionsError(f"{self.where(name)}: unknown {text!r}; {hint}", code="unknown-value", option=name)
        return text

    def fields(self, option: Option) -> dict[str, Any]:
        """Return the fields that an option sets; none if its own default applies. Raises OptionsError."""
        text = self.raw[option.name]
        if option.flag:
            return {option.field: bool(text)}
        if text is None or (text == "" and option.default is None):
            return {option.field: None} if option.default is not None else {}
        if option.choices:
            self.chosen(option.name, SERVICES if option.field == "service" else ())
        value = self.parsed(option.name, option.parse)
        return dict(zip((option.field, option.second), value, strict=True)) if option.second else {option.field: value}


@dataclass(frozen=True)
class _Rule:
    """An option that cannot be combined with others: when, and why; {lab} and {timeline} are placeholders."""

    option: str
    when: Callable[[RawOptions], Any]
    why: str


def _seen_without_recording(raw: RawOptions) -> bool:
    """Whether the player's log of frames can be the picture, or the browser's timings of pages are the figures."""
    pages = SERVICES[raw.service].loads_pages
    return raw.lab == "sim" and (raw.mode in raw.takes.get("clip", ()) or pages)


def _sets(raw: RawOptions, name: str) -> bool:
    return raw.raw[name] not in (None, "", "none")


def _without_http1_origin(name: str, option: str) -> _Rule:
    """Return the rule that an option which chooses the origin does not go with one that needs Sojourn's own."""
    return _Rule(
        name,
        lambda it: _sets(it, option) and (name in it.named or it.raw[name] == "h3"),
        f"{_HTTP1_ORIGINS[option]} is Sojourn's own and has HTTP/1.1; omit --{name} or --{option}",
    )


_RULES = (
    _Rule(
        "live", lambda it: it.live and it.lab not in ("virtual", ROUTER_LAB),
        f"the {{lab}} lab has no internet; use {_WITH_INTERNET}, or omit --live",
    ),
    _Rule(
        "url", lambda it: it.raw["url"] and it.mode != "own" and it.lab == "sim",
        f"the sim lab reaches only its own servers; use {_WITH_INTERNET}, or omit --url",
    ),
    _Rule(
        "ip-version",
        lambda it: str(it.raw["ip-version"]) == "6" and it.lab == "virtual" and it.mode in ("live", "stream"),
        "the virtual lab's uplink to the internet is IPv4; omit --ip-version",
    ),
    _Rule(
        "lab-file", lambda it: "lab-file" in it.named and it.lab not in PHYSICAL,
        "the {lab} lab has no lab file; use --lab=apu or --lab=black-box, or omit --lab-file",
    ),
    _Rule(
        "browser", lambda it: it.named.get("browser") and it.lab == "sim",
        "the sim lab has its own Chromium; use another lab, or omit --browser",
    ),
    _Rule(
        "kernel-source", lambda it: "kernel-source" in it.named and it.lab in PHYSICAL,
        "a physical router has its own kernel; omit --kernel-source",
    ),
    _Rule(
        "iproute2-source", lambda it: "iproute2-source" in it.named and it.lab in PHYSICAL,
        "a physical router has its own tc; omit --iproute2-source",
    ),
    _Rule(
        "rpm", lambda it: it.lab in PHYSICAL and "rpm" in it.named,
        "the probes' client and server must be on this machine; use --lab=sim or --lab=virtual, or omit --rpm",
    ),
    *(
        _Rule(
            name, lambda it, name=name: it.lab == BOX_LAB and name in it.named,  # type: ignore[misc]
            f"a black box decides this itself; use --lab=apu, or omit --{name}",
        )
        for name in _DECIDED
    ),
    *(
        _Rule(
            name, lambda it, name=name: it.lab == BOX_LAB and "," in str(it.named.get(name)),  # type: ignore[misc]
            "the rate of a black box has no steps; give its nominal rate",
        )
        for name in _STATED
    ),
    _Rule(
        "exact", lambda it: it.lab == BOX_LAB and it.named.get("exact"),
        "no seed draws a rig for a black box; omit --exact",
    ),
    _Rule(
        "jitter-gate", lambda it: it.lab == BOX_LAB and "jitter-gate" in it.named,
        "no probe bypasses the queue of a black box; omit --jitter-gate",
    ),
    *(
        _without_http1_origin(name, option)
        for option in _HTTP1_ORIGINS
        for name in ("origin-protocol", "origin-server")
    ),
    _Rule(
        "origin-pacing",
        lambda it: _sets(it, "origin-pacing") and it.raw["player"] not in (None, *CMCD_PLAYERS),
        "only dash.js reports its buffer, which the pace depends on; omit --origin-pacing or --player, or use one of: "
        f"{', '.join(CMCD_PLAYERS)}",
    ),
    _Rule(
        "origin-server", lambda it: it.raw["origin-server"] == _NOQ and it.raw["origin-protocol"] != "h3",
        "noq serves HTTP/3 only; add --origin-protocol=h3, or omit --origin-server",
    ),
    _Rule(
        "origin-cc",
        lambda it: "origin-cc" in it.named and it.raw["origin-protocol"] == "h3" and it.raw["origin-server"] != _NOQ,
        "Caddy's HTTP/3 has its own congestion control; use --origin-server=noq, or omit --origin-cc",
    ),
    _Rule(
        "origin-cc", lambda it: it.raw["origin-server"] == _NOQ and it.raw["origin-cc"] not in QUIC_CONTROLS,
        f"the HTTP/3 origin has no such congestion control; it has: {', '.join(QUIC_CONTROLS)}",
    ),
    _Rule(
        "origin-cc", lambda it: it.raw["origin-server"] != _NOQ and it.raw["origin-cc"] == "newreno",
        "newreno is QUIC's; add --origin-protocol=h3, or use --origin-cc=reno",
    ),
    _Rule(
        "origin-cc", lambda it: it.raw["origin-cc"] == "prague" and it.mode in ("stream", "live"),
        "the uplink's relay does not negotiate accurate ECN, which prague needs; use another, such as bbr",
    ),
    _Rule(
        "contenders",
        lambda it: "contenders" in it.named and names_loads(it.raw["timeline"]),
        "{timeline} names its own loads; use a named timeline, such as --timeline=short, or omit --contenders",
    ),
    _Rule(
        "call-cc", lambda it: it.raw["call-cc"] == "scream" and it.raw["call-ecn"] == "ect1",
        "a SCReAM call marks its media as ECT(1) itself; omit --call-ecn, or use --call-cc=gcc",
    ),
    _Rule(
        "call-sound", lambda it: it.lab != "sim" and it.named.get("call-sound", "off") != "off",
        "a call has sound in simulated time only, where its delay is exact; omit --call-sound, or use --lab=sim",
    ),
    _Rule(
        "call-sound", lambda it: it.raw["call-sound"] == "speech" and "parties" in it.takes,
        "speech is judged in a call of two parties only; use --call-sound=on",
    ),
    _Rule(
        "target-latency",
        lambda it: it.raw["target-latency"] and it.raw["player"] not in LOW_LATENCY_PLAYERS,
        f"only some players play with low latency; add --player, one of: {', '.join(LOW_LATENCY_PLAYERS)}",
    ),
    _Rule(
        "buffer", lambda it: it.raw["target-latency"] and "buffer" in it.named,
        "with --target-latency, a player buffers what its latency leaves; omit one of them",
    ),
    _Rule(
        "service", lambda it: "parties" in it.takes and it.lab != "sim",
        "a room needs more processors than a lab in real time has; use --lab=sim, or --service=call",
    ),
    _Rule(
        "max-quality", lambda it: it.raw["ladder"] and it.raw["max-quality"],
        "--ladder already sets the highest quality; omit --max-quality or --ladder",
    ),
    _Rule(
        "recorder", lambda it: it.raw["video"] == NO_VIDEO and it.named.get("recorder", SCREENING) != SCREENING,
        "--video=off makes no recording; omit --recorder or --video",
    ),
    _Rule(
        "video", lambda it: it.raw["video"] == NO_VIDEO and not _seen_without_recording(it),
        "without a recording, only the picture of a stand-in video in the sim lab is known; use --video=on or "
        "--video=retain-on-failure",
    ),
    _Rule(
        "recorder",
        lambda it: it.raw["recorder"] == SCREENING and not _seen_without_recording(it),
        "without a recording, only the picture of a stand-in video in the sim lab is known; omit --recorder",
    ),
    _Rule(
        "video",
        lambda it: it.raw["recorder"] == SCREENING and "video" in it.named and it.raw["video"] != NO_VIDEO,
        "a screening run has no recording; omit --video",
    ),
    _Rule(
        "engine", lambda it: it.raw["engine"] != LOCAL and it.lab != "sim",
        "the {lab} lab runs on this machine only; use --lab=sim, or omit --engine",
    ),
    _Rule(
        "clip", lambda it: it.raw["engine"] != LOCAL and it.raw["clip"],
        "the workers of a cluster do not have this film; use --engine=local, or omit --clip",
    ),
    _Rule(
        "url", lambda it: it.raw["engine"] != LOCAL and it.mode == "own",
        "the workers of a cluster do not have this folder; use --engine=local, or omit --url",
    ),
)  # fmt: skip


def parse_options(
    given: Mapping[str, Any],
    defaults: Mapping[str, Any] = MappingProxyType({}),
    programs: Sequence[UserProgram] = (),
    *,
    baseline: bool = True,
) -> Options:
    """Check `given` (option name with dashes → text or bool; None where not given) and return the options of a run.

    `defaults` override the service's defaults, and these the built-in ones. A
    default without effect is ignored; a given option without effect is refused. `programs` are the user's that
    contenders may name, in addition to those whose files they name. Without `baseline`, solo phases may be too short
    for one. Raises OptionsError for the first option that cannot work.
    """
    for name, instead in ELSEWHERE.items():
        if given.get(name) is not None:
            raise OptionsError(f"--{name}: no such option; {instead}", code="unknown-option", option=name)
    raw = RawOptions(given, defaults)
    reset_inapplicable(raw)
    apply_conditional_defaults(raw)
    own = _spell_own_names(raw)
    programs = [*programs, *_read_programs(raw)]
    fields = raw.fields(BY_NAME["engine"])
    for rule in _RULES:
        if rule.when(raw):
            raise raw.refused(rule.option, rule.why.format(lab=raw.lab, timeline=raw.timeline))
    _require_confirmed_account(raw)
    phases = _phases(raw)
    fields |= {"lab": raw.lab, "phases": phases, "programs": _programs(raw, phases, programs)}
    for option in OPTIONS:
        if option.stored and option.field not in fields:
            fields |= raw.fields(option)
    if raw.lab not in PHYSICAL:
        _require_own_names(raw, own, fields)
    fields |= _dependent(raw, fields, sum(phase.seconds for phase in phases))
    if baseline:
        _require_baseline(raw, fields)
    return Options(**fields)


def notes(options: Options) -> list[str]:
    """Return what a user may not have meant by options that work, a line each."""
    if any(phase.contender for phase in options.phases):
        return []
    return ["timeline: no contender competes: the run has the victim's values alone, and no harm"]


def value_of(name: str, text: str) -> Any:
    """Return the value that a text gives an option by itself, whatever the others are. Raises OptionsError."""
    try:
        return BY_NAME[name].parse(text)
    except ValueError as wrong:
        code = wrong.code if isinstance(wrong, BadValue) else "invalid-value"
        raise OptionsError(f"--{name}: {wrong}", code=code, option=name) from wrong


def _map_of(name: str, text: str) -> str:
    """Return the command that takes several values of an option; empty unless the text is a list of valid ones."""
    values = text.split(",")
    if len(values) < 2 or name in (*WITH_COMMAS, "contenders") or BY_NAME[name].subject not in ("what", "content"):
        return ""
    try:
        for value in values:
            value_of(name, value.strip())
    except OptionsError:
        return ""
    return f"; for several values run `sojourn map {shlex.quote(f'{name}={text}')}`"


def reset_inapplicable(raw: RawOptions) -> None:
    """Reset options without effect on the victim to their defaults. Raises OptionsError if the user set one."""
    for name in sorted({name for service in SERVICES.values() for name in service.takes}):
        relayed = name == _RELAYED and raw.lab == "virtual" and raw.mode in ("stream", "live")
        competes = name == "game-dscp" and _competes(GAME, raw)
        if raw.mode not in raw.takes.get(name, ()) and not relayed and not competes:
            if name in raw.named and raw.named[name] is not False:
                why = _without_effect(name, raw)
                raise OptionsError(f"{raw.where(name)}: {why}", code="no-effect", option=name)
            raw.raw[name] = BY_NAME[name].default
    if SERVICES[raw.service].screen:
        return
    for name in ("recorder", "video") if _competes(VIDEO, raw) else ("recorder", "video", "driver", "browser"):
        if name in raw.named:
            why = f"has no effect on --service={raw.service}, which shows no picture; omit it"
            raise OptionsError(f"{raw.where(name)}: {why}", code="no-effect", option=name)
        raw.raw[name] = BY_NAME[name].default


def apply_conditional_defaults(raw: RawOptions) -> None:
    """Set the defaults that depend on other options: those of a live run, of the sim lab and of a black box."""
    if "timeline" not in raw.known:
        raw.raw["timeline"] = "published" if raw.live else "steady" if raw.lab == "sim" else "short"
    by_lab = "on" if raw.lab == "sim" else "off"
    raw.raw["rpm"] = by_lab if raw.lab in PHYSICAL else raw.raw["rpm"] or by_lab
    if raw.mode in raw.takes.get("call-sound", ()):
        raw.raw["call-sound"] = by_lab if raw.lab != "sim" else raw.raw["call-sound"] or by_lab
    if raw.lab == "sim":
        raw.raw["browser"] = None
    if raw.lab == BOX_LAB:
        stated = {name: text for name in _STATED if "," not in str(text := raw.known.get(name))}
        raw.raw |= dict.fromkeys((*_DECIDED, *_STATED, "jitter-gate")) | stated
    else:
        raw.raw["rate-up"] = raw.raw["rate-up"] or raw.raw["rate"]
        raw.raw["qdisc-up"] = raw.raw["qdisc-up"] or raw.raw["qdisc"]
    if raw.lab not in PHYSICAL:
        raw.raw["ip-version"] = raw.raw["ip-version"] or "4"
    _choose_recording(raw)
    _choose_origin(raw)


def _choose_recording(raw: RawOptions) -> None:
    """Make the recorder and the recordings to keep agree, where the user does not name both."""
    off = raw.raw["video"] == NO_VIDEO
    if "recorder" not in raw.named:
        if off:
            raw.raw["recorder"] = SCREENING
        elif "video" in raw.named and raw.raw["recorder"] == SCREENING:
            raw.raw["recorder"] = BY_NAME["recorder"].default
    if "video" not in raw.named and off != (raw.raw["recorder"] == SCREENING):
        raw.raw["video"] = BY_NAME["video"].default


def _choose_origin(raw: RawOptions) -> None:
    """Choose the origin's server, and a congestion control that it has if the user names none."""
    quic, server = raw.raw["origin-protocol"] == "h3", raw.raw["origin-server"]
    if not quic and "origin-server" not in raw.named:
        server = None
    elif quic and "origin-cc" in raw.named and "origin-server" not in raw.named:
        server = _NOQ
    raw.raw["origin-server"] = server
    if server == _NOQ and "origin-cc" not in raw.named and raw.raw["origin-cc"] not in QUIC_CONTROLS:
        raw.raw["origin-cc"] = "bbr3"


def _spell_own_names(raw: RawOptions) -> OwnNames:
    """Give qdiscs and contenders of the user's own kernel the names that records have. Raises OptionsError."""
    if not raw.raw["kernel-source"] or raw.lab in PHYSICAL:
        return OwnNames()
    own = raw.parsed("kernel-source", lambda text: own_names(BY_NAME["kernel-source"].parse(text)))
    for spelled, known, names, others in (
        (own.spelled_qdisc, own.qdiscs, ("qdisc", "qdisc-up"), _PARAMETERS),
        (own.spelled_load, own.controls, ("contenders", "timeline"), PROGRAM),
    ):
        for name in names:
            if text := raw.raw[name]:
                changed = spelled(str(text))
                if wrong := own.misspelt(others.sub("", changed), known or ()):
                    raise OptionsError(f"--{name}: {wrong}", option=name)
                raw.raw[name] = FromFile(changed, text.source) if isinstance(text, FromFile) else changed
    return own


def _of_loads(raw: RawOptions) -> str:
    return "timeline" if names_loads(raw.raw["timeline"]) else "contenders"


def _competes(application: str, raw: RawOptions) -> bool:
    """Whether an application is in the loads, rather than in the name of a program's file."""
    return application in re.split(r"[,+*@:\s]+", PROGRAM.sub("", str(raw.raw[_of_loads(raw)])))


def spelled_programs(text: str) -> tuple[str, tuple[UserProgram, ...]]:
    """Return a load with the names that records have for the user's programs, and these programs.

    Raises UserProgramError, BuildError.
    """
    found: list[UserProgram] = []

    def read(match: re.Match[str]) -> str:
        found.append(read_user_program(match[1]))
        return found[-1].name

    return PROGRAM.sub(read, text), tuple(found)


def _read_programs(raw: RawOptions) -> list[UserProgram]:
    """Return the user's programs, and give them the names that records have. Raises OptionsError."""
    found: list[UserProgram] = []
    for name in ("contenders", "timeline"):
        text = str(raw.raw[name] or "")
        if not PROGRAM.search(text):
            continue
        if isinstance(raw.raw[name], FromFile):
            why = "only you name programs that run; give it on the command line"
            raise raw.refused(name, why, BadValue("not-from-file", why))
        try:
            raw.raw[name], programs = spelled_programs(text)
        except (UserProgramError, BuildError) as wrong:
            raise raw.refused(name, str(wrong), BadValue(wrong.code, str(wrong))) from wrong
        found += programs
    return found


def _programs(raw: RawOptions, phases: Iterable[Phase], programs: Iterable[UserProgram]) -> tuple[UserProgram, ...]:
    """Return the definitions of the user's programs among the contenders. Raises OptionsError."""
    names = [flow.contender for phase in phases for flow in phase.load]
    try:
        found = defined(names, programs)
    except (UserProgramError, BuildError) as wrong:
        raise raw.refused(_of_loads(raw), str(wrong), BadValue(wrong.code, str(wrong))) from wrong
    if found and raw.lab in PHYSICAL:
        why = f"your own program does not run in the {raw.lab} lab; use --lab=sim or --lab=virtual"
        raise raw.refused(_of_loads(raw), why, BadValue("unsupported", why))
    if found and raw.raw["engine"] != LOCAL:
        raise raw.refused(_of_loads(raw), "the workers of a cluster do not have your program; use --engine=local")
    # Others connect once, or by UDP; the ends' mode stays that of the last flows that start.
    modes = {it.name: it.tcp_ecn for it in found if it.tcp_ecn != DEFAULT_TCP_ECN} | {RPM: CONTROL.tcp_ecn}
    for phase in phases:
        connecting = {flow.contender: mode for flow in phase.load if (mode := modes.get(flow.contender)) is not None}
        if len(set(connecting.values())) > 1:
            each = ", ".join(f"{name}: {mode}" for name, mode in connecting.items())
            why = f"these connect repeatedly, each with its own net.ipv4.tcp_ecn ({each}); give each its own phase"
            raise raw.refused(_of_loads(raw), why, BadValue("unsupported", why))
    return found


def _require_own_names(raw: RawOptions, own: OwnNames, fields: Mapping[str, Any]) -> None:
    """Raise OptionsError for a qdisc, contender or origin's congestion control that the lab's kernel does not have."""
    wrong = {name: own.unknown_qdisc(fields.get(BY_NAME[name].field)) for name in ("qdisc", "qdisc-up")}
    wrong[_of_loads(raw)] = own.unknown_contender(flow.contender for phase in fields["phases"] for flow in phase.load)
    if raw.lab == "sim" and raw.raw["origin-server"] != _NOQ:
        wrong["origin-cc"] = own.unknown_contender([str(raw.raw["origin-cc"])])
    for name, why in wrong.items():
        if why:
            raise raw.refused(name, why, BadValue("unknown-value", why))


def names_loads(timeline: Any) -> bool:
    """Whether a timeline names its own loads: `solo:20,cubic:40` does, `short` does not."""
    return str(timeline) not in TIMELINES


def _require_confirmed_account(raw: RawOptions) -> None:
    """Raise OptionsError if a file determines the site that gets the user's account, without confirmation."""
    url = raw.raw["url"]
    if not (raw.live and isinstance(url, FromFile)):
        return
    named = [f"--{name}" for name in ("credentials", "profile") if raw.raw[name]]
    if account := named or account_variables(raw.service):
        raise OptionsError(
            f"--url: {url.source} sends your account ({', '.join(account)}) to {url}; confirm it with --url={url}, or "
            "omit the account", code="confirm-account", option="url",
        )  # fmt: skip


def _phases(raw: RawOptions) -> tuple[Phase, ...]:
    contenders = tuple("".join(name.split()) for name in str(raw.raw["contenders"]).split(","))
    if "solo" in contenders and not names_loads(raw.raw["timeline"]):
        why = "solo is not a contender; a named timeline has solo phases between the contenders: omit it"
        raise raw.refused("contenders", why, BadValue("invalid-value", why))
    phases = raw.parsed("timeline", lambda text: parse_timeline(text, contenders))
    try:
        for phase in phases:
            parse_load("cubic" if phase.contender is None else phase.contender)
    except ValueError as wrong:
        raise raw.refused(_of_loads(raw), str(wrong), wrong) from wrong
    return tuple(phases)


def _dependent(raw: RawOptions, fields: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the fields whose limits depend on other options. Raises OptionsError."""
    changed: dict[str, Any] = {}
    for name in _STATED:
        field = BY_NAME[name].second
        steps: tuple[RateStep, ...] = fields.get(field, ())
        changed[field] = tuple(step for step in steps if step.at_s < seconds)
        if len(changed[field]) < len(steps) and not raw.cut_short(name):
            late = f"a step at {steps[len(changed[field])].at_s:g} s"
            why = f"{late}; give ascending times within the timeline's {seconds:g} s"
            raise raw.refused(name, why, BadValue("out-of-range", why))
    _require_shared_rates(raw, {**fields, **changed})
    half_us = (fields.get("rtt_us") or 0) // 2
    if fields.get("jitter_us", 0) > half_us:
        why = f"{str(raw.raw['jitter'])!r} is out of range; give at most {format_time(half_us)}, half of --rtt"
        raise raw.refused("jitter", why, BadValue("out-of-range", why))
    if raw.mode == "own":
        changed["url"] = str(raw.parsed("url", existing("file", "a page or playlist in its own folder, or https://…")))
    return changed


class _PlannedPhase(NamedTuple):
    """A phase with its times in s of the run."""

    contender: str | None
    start: float
    end: float


def _require_baseline(raw: RawOptions, fields: Mapping[str, Any]) -> None:
    """Raise OptionsError if no solo phase can be the baseline, as in `sojourn.scoring.baseline.solo`.

    Its gates judge every run but that of a video that is alone while the rate changes. A room's baseline ends at the
    first step of either rate.
    """
    victim, phases = SERVICES[raw.service], fields["phases"]
    call, room = issubclass(victim, TwoParty), "parties" in victim.takes
    steps = [(step.at_s, name) for name in _STATED for step in fields.get(BY_NAME[name].second, ())[:1]]
    is_video = victim.screen and not victim.loads_pages and not call
    if is_video and steps and not any(phase.contender for phase in phases):
        return
    planned, at = [], 0.0
    for phase in phases:
        # With steps of the rate, which have fixed times, no phase is longer.
        seconds = phase.seconds + (LONGER_S if phase.at_least and not steps else 0)
        planned.append(_PlannedPhase(phase.contender, at, at := at + seconds))
    windows = solo_windows(planned, recovery_s(call=call))
    if not windows:
        why = f"no solo phase leaves a baseline of {SHORTEST_S:g} s; give a first phase of at least solo:{SHORTEST_S:g}"
        raise raw.refused("timeline", why, BadValue("out-of-range", why))
    least_s = windows[0][0] + SHORTEST_S
    if room and steps and (first := min(steps))[0] < least_s:
        why = f"the first step, at {first[0]:g} s, ends a room's baseline; give it at {least_s:g} s or later"
        raise raw.refused(first[1], why, BadValue("out-of-range", why))


def _require_shared_rates(raw: RawOptions, fields: Mapping[str, Any]) -> None:
    """Raise OptionsError for a qdisc whose rate must be its link's and is not, or not for the whole run."""
    for name, rate in zip(("qdisc", "qdisc-up"), _STATED, strict=True):
        qdisc, link_bps = fields.get(BY_NAME[name].field), fields.get(BY_NAME[rate].field)
        if not isinstance(qdisc, OwnQdisc) or qdisc.shared_rate_bps is None or not link_bps:
            continue
        if qdisc.shared_rate_bps != link_bps:
            why = f"its rate is not the link's; give {qdisc.name} rate {format_rate(link_bps)}"
        elif fields[BY_NAME[rate].second]:
            why = f"its rate is fixed, but --{rate} has steps; omit them, or use another qdisc"
        else:
            continue
        raise raw.refused(name, why, BadValue("conflict", why))


def _without_effect(name: str, raw: RawOptions) -> str:
    """Return why an option would have no effect, and what to do."""
    if modes := raw.takes.get(name):
        works = " or ".join(_MODES[it] for it in modes)
        return f"has no effect on {_MODES[raw.mode]}, only on {works}; omit it"
    others = [other for other, kind in SERVICES.items() if name in kind.takes]
    return f"has no effect on --service={raw.service}, only on {', '.join(others)}; omit it"
