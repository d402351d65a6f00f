# SPDX-License-Identifier: Apache-2.0
"""What a user may ask of a run: read from the command line, checked as a whole before anything starts."""

from __future__ import annotations

import ipaddress
import json
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from apps import SERVICES
from apps.base import Asked, Mode, Service
from apps.credentials import account_variables
from apps.standins.ladder import LADDER, parse_ladder
from bottleneck.impairment import Impairment
from bottleneck.qdiscs import KINDS, Qdisc, parse_qdisc
from bottleneck.shaper import RateStep
from bottleneck.spec import Bottleneck, Direction
from bottleneck.units import format_rate, format_time, parse_percent, parse_time, rate_option, rtt_option
from hardware.kernel_build import kernel_source
from hardware.lab.lab_file import BOX_LAB, PHYSICAL, ROUTER_LAB, read_lab_file
from hardware.machine.files import expanded
from hardware.machine.ip import IP_VERSIONS, IpVersion
from hardware.machine.messages import did_you_mean
from harness.options.timeline import TIMELINES, Phase, parse_timeline, reordered
from traffic.load import KNOWN, VIDEO, parse_load

T = TypeVar("T")

_SPARE_BYTES = 150 << 20
_STEPS = ("rate_steps", "rate_up_steps")
#: Fields of a record that are texts, by their options' names, and those in which 0 is no option.
_TEXTS = ("service", "video_id", "url", "script", "credentials", "browser", "profile", "clip", "origin_cc",
          "origin_protocol", "call_ecn", "qdisc_up", "driver", "recorder", "lab_file", "kernel_source",
          "engine")  # fmt: skip
_ZEROS = ("loss_percent", "jitter_us")
_PATHS = ("lab_file", "results", "credentials", "kernel_source", "clip", "script", "browser", "profile")
_RECORDING_BPS = 4_000_000
#: What captures need room for where the bottleneck's rate is not known.
_ANY_RATE_BPS = 100_000_000
_MOST_RUNS = 1000
#: Beyond that a video does not play, and a path that carries packets once in so long is a broken one.
_MOST_LOSS, _LONGEST_BURST_US = 20.0, 100_000

#: What drives the browser (apps/browsers/drivers.py), and what records the screen (captures/recorders.py).
DRIVERS = ("playwright", "selenium")
RECORDERS = ("ffmpeg", "obs")
#: Renditions that may be asked for as the best one.
QUALITIES = tuple(f"{rung.height}p" for rung in LADDER)
LOCAL = "local"
"""The engine that is this machine."""
UNSAFE = "dask+unsafe"
"""The scheme of a Dask cluster without TLS on other machines."""


class OptionsError(ValueError):
    """An option that cannot work; the text is one line that names it and says what would be right."""


class VersionError(OptionsError):
    """The options are those of another version of Sojourn."""


#: Groups of options, as --help shows them.
GROUPS = {
    "victim": "the victim: what is watched",
    "path": "the path: its bottleneck and its delay",
    "contenders": "the contenders: who competes, and when",
    "recording": "the recording",
    "lab": "the lab: where it runs",
    "evidence": "the evidence: how often, and where it goes",
}
LABS = ("sim", "virtual", *PHYSICAL)
_WITH_INTERNET = "--lab=virtual or --lab=apu"
#: What the relay of a virtual lab's uplink takes, whatever is watched there.
_RELAYED = "origin-cc"
#: What a box decides by itself; of its rates a user may say what they are.
_DECIDED, _SAID = ("qdisc", "qdisc-up", "rtt", "loss", "jitter", "bursts"), ("rate", "rate-up")

Says = Literal["what", "content", "how", "who"]
"""What an option says, which decides where it may stand.

`what` is measured: any file. `content`, which is played: any file, as an address or a path in the file's own folder.
`how` often, by which instruments, and where the evidence goes: a defaults file too. `who`: a program, an account or a
machine, from the command line and the user's own environment alone.
"""


class FromFile(str):
    """The value of an option that a scenario or a defaults file gives; of what is played, one that nobody named."""

    file: Path

    def __new__(cls, value: str, file: Path) -> Self:
        text = super().__new__(cls, value)
        text.file = file
        return text


WHY_DEFAULT_QUEUE = (
    "the published experiment's: a single shared queue with an AQM that marks, a laboratory case, "
    "not what access lines ship"
)
"""Of the queue that is taken where nobody names one."""


@dataclass(frozen=True)
class Option:
    """One command-line option: its default, unless the service brings another, and its help text."""

    name: str
    default: Any
    group: str
    says: Says
    help: str
    flag: bool = False
    choices: tuple[str, ...] = ()
    """All that it may be, or what it often is (a queue's kind stands before its parameters)."""

    @property
    def text(self) -> str:
        """What --help says of it."""
        some = f": {', '.join(self.choices)}" if self.choices and self.choices[0] not in self.help else ""
        return self.help + some + (f" (default: {self.default})" if self.default and not self.flag else "")


OPTIONS = [
    Option(
        "service", "youtube", "victim", "what", "which service is watched; all: the published runs, each as published",
        choices=(*SERVICES, "all"),
    ),
    Option(
        "live", False, "victim", "who",
        "open the real service instead of its stand-in (with --lab=virtual or --lab=apu)", flag=True,
    ),
    Option("video-id", "aqz-KE-bpKQ", "victim", "what", "with --live: which YouTube video is watched"),
    Option(
        "url", "", "victim", "content",
        "television: an HLS or DASH stream, or with --live the channel's page; page: any page with a video; with "
        "--live: a meeting's link. A file of yours is served by the lab's own origin, with all that is in its folder",
    ),
    Option(
        "script", None, "victim", "who",
        "page: a file with a JavaScript function that has the page play, called until a video does",
    ),
    Option(
        "credentials", None, "victim", "who",
        "with --live: a file with your account that only you may read (docs/services.md)",
    ),
    Option(
        "browser", None, "victim", "who",
        "the program of another browser of Chromium's family than Debian's Chromium: Chrome, Edge (docs/drivers.md)",
    ),
    Option(
        "profile", None, "victim", "who",
        "with --live: a browser's profile of yours, with its logins; it is copied for the run and not written to",
    ),
    Option("buffer", "12", "victim", "what", "seconds of video that the stand-in's player tries to hold"),
    Option(
        "max-quality", None, "victim", "what",
        "youtube's stand-in: the best rendition that it offers (without it 720p, all that its window shows)",
        choices=QUALITIES,
    ),
    Option(
        "clip", None, "victim", "content",
        "a film of your own that the stand-in plays, its first 5 minutes again and again; a strip is put into it",
    ),
    Option("ladder", None, "victim", "what", "the stand-in's renditions: 240p:300k,480p:1mbit,720p:2.5mbit"),
    Option(
        "origin-cc", "bbr", "victim", "what", "TCP congestion control of the video's origin",
        choices=("bbr", "cubic", "reno"),
    ),
    Option(
        "origin-protocol", "h2", "victim", "what", "h2 (TCP) or h3 (QUIC) between the browser and the origin",
        choices=("h2", "h3"),
    ),
    Option(
        "call-bitrate", None, "victim", "what",
        "a call's video each way, at most (default: 2.5mbit; 1mbit where a host in real time is too slow)",
    ),
    Option("call-ecn", "not-ect", "victim", "what", "ECN codepoint of a call's packets", choices=("not-ect", "ect1")),
    Option(
        "qdisc", "fq_codel flows 1", "path", "what",
        f"the bottleneck's queue discipline, as tc would take it; the default is {WHY_DEFAULT_QUEUE}",
        choices=tuple(KINDS),
    ),
    Option("qdisc-up", None, "path", "what", "the same for the uplink (default: as --qdisc)", choices=tuple(KINDS)),
    Option(
        "rate", "10mbit", "path", "what",
        "the bottleneck's rate towards the client; 10mbit,30s:5mbit: from 30 s on in the timeline another; "
        "of a black box: what it is said to have",
    ),
    Option("rate-up", None, "path", "what", "the rate away from the client (default: as --rate)"),
    Option("rtt", "20ms", "path", "what", "round-trip time that the router's path adds, half in each direction"),
    Option(
        "ip-version", None, "path", "what",
        "4 or 6: the IP version of all that is sent (default: 4; with a lab file: that of its addresses)",
        choices=tuple(map(str, IP_VERSIONS)),
    ),
    Option("loss", None, "path", "what", "share of the packets that the path loses at random, each way: 0.5%"),
    Option(
        "jitter", None, "path", "what",
        "by how much the path's delay varies at random, each way (it reorders): 2ms",
    ),
    Option(
        "bursts", None, "path", "what",
        "the path lets packets out in bursts, as Wi-Fi and LTE do, each way: one each 5ms, or at random 1ms-8ms",
    ),
    Option(
        "timeline", "short", "contenders", "what",
        "short (20/40/20/40/20 s), published (60/120/60/120/60 s; with --live unless another is named) or "
        "solo:20,cubic:40,…",
        choices=("short", "published"),
    ),
    Option(
        "contenders", "cubic,prague", "contenders", "what",
        "who competes, in order, in a named timeline; several at once and uploads: cubic*4, prague+cubic@up, cubic+web "
        "(web is a user who fetches pages, video a second video, call a call). Known: " + ", ".join(KNOWN),
        choices=KNOWN,
    ),
    Option(
        "scenario", None, "contenders", "how",
        "a TOML file with options about victim, path and contenders; those given beside it go before (docs/options.md)",
    ),
    Option("driver", "playwright", "recording", "how", "what drives the browser", choices=DRIVERS),
    Option("recorder", "ffmpeg", "recording", "how", "what records the screen", choices=RECORDERS),
    Option(
        "jitter-gate", None, "recording", "how",
        "a run is void when the lab adds more than this at P99 to an unshaped probe (default: 50us in sim, else 2ms)",
    ),
    Option(
        "lab", None, "lab", "who",
        "sim (default: simulated time), virtual (real time here), apu (a router over ssh), black-box (any device, "
        "between two captures)",
        choices=LABS,
    ),
    Option("lab-file", "lab.toml", "lab", "who", "with --lab=apu and --lab=black-box: where the lab is described"),
    Option(
        "kernel-source", None, "lab", "who",
        "Linux for the simulated or virtual APU: a tar file, a folder or a git tree (default: Debian's newest 7.x)",
    ),
    Option(
        "engine", LOCAL, "lab", "who",
        "where runs in simulated time are made: local or tls://HOST:PORT, the workers of a Dask cluster; each seed of "
        "--repeat, each cell of a matrix is one",
    ),
    Option("results", "results", "evidence", "how", "folder that takes the evidence directories"),
    Option("seed", "1", "evidence", "how", "seed of everything random; stored in the evidence"),
    Option(
        "repeat", None, "evidence", "how",
        "valid runs wanted, with seeds from --seed on and the contenders in random order; at most 2 attempts more "
        "(default: 1 run; matrices: runs of each cell, default the matrix's own)",
    ),
    Option(
        "sign", None, "evidence", "who",
        "sign the manifest of each run with this ssh key (docs/bundles.md); without a passphrase, or in an agent",
    ),
]  # fmt: skip
FORMER = {"probe-ecn": "every run has both probes, Not-ECT and ECT(1); leave it out"}
"""Options of earlier versions, and what to do without them."""
_BY_NAME = {option.name: option for option in OPTIONS}
_MODES: dict[Mode, str] = {
    "stand-in": "a stand-in",
    "own": "a folder of yours (--url=FOLDER/…)",
    "stream": "an address (--url=https://…)",
    "live": "the real service (--live)",
}


@dataclass(frozen=True)
class Options(Asked):
    """The options of one run, parsed. Rates are in bit/s, times in seconds unless the name says otherwise.

    Of a box no queue and no round-trip time is asked, and its rates are what it is said to have, if anything.
    """

    service: str
    qdisc_down: Qdisc | None
    qdisc_up: Qdisc | None
    rate_down_bps: int | None
    rate_up_bps: int | None
    rtt_us: int | None
    ip_version: IpVersion | None
    """Of all that is sent; None: that of the physical lab's addresses."""
    rate_steps: tuple[RateStep, ...]
    rate_up_steps: tuple[RateStep, ...]
    loss_percent: float
    jitter_us: int
    bursts_us: tuple[int, int] | None
    """The path lets packets out once in a time between these two."""
    phases: tuple[Phase, ...]
    jitter_gate_ms: float | None
    """None: the lab's own."""
    results: Path
    kernel_source: Path | None
    seed: int
    asked_lab: str = ""
    """The lab that was named, empty if none was."""
    repeat: int | None = None
    engine: str = LOCAL
    """Or the address of a Dask scheduler."""
    box: str = ""
    """What the lab file calls the box that stands for the bottleneck."""
    sign: Path | None = None
    """The key that signs the manifest: of who made the run, not of the experiment, and so in no record."""

    @property
    def seconds(self) -> float:
        """How long all phases take together."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def bottleneck(self) -> Bottleneck:
        """The bottleneck that these options describe; the round-trip time is split evenly."""
        assert self.rtt_us is not None and self.rate_down_bps and self.rate_up_bps and self.qdisc_down and self.qdisc_up
        half = self.rtt_us // 2
        burst_us, longest_us = self.bursts_us or (0, None)
        path = Impairment(
            delay_us=half, jitter_us=self.jitter_us, loss_percent=self.loss_percent,
            slot_us=burst_us, slot_max_us=None if longest_us == burst_us else longest_us,
        )  # fmt: skip
        down, up = path.model_copy(update={"delay_us": self.rtt_us - half}), path
        return Bottleneck(
            down=Direction(rate_bps=self.rate_down_bps, qdisc=self.qdisc_down, path=down),
            up=Direction(rate_bps=self.rate_up_bps, qdisc=self.qdisc_up, path=up),
        )

    @property
    def second_video(self) -> bool:
        """Whether a second video competes in some phase."""
        return any(part.contender == VIDEO for phase in self.phases for part in phase.load)

    @property
    def uplink(self) -> str | None:
        """By which congestion control a virtual lab's uplink sends on what comes from outside; None without one."""
        return self.origin_cc if self.elsewhere and self.lab == "virtual" else None

    @property
    def no_other_end(self) -> str | None:
        """Why the lab has no place for a live call's other end; None where it has. Raises LabFileError."""
        if self.lab == "virtual":
            return None
        server = read_lab_file(self.lab_file).server
        if server.netns and not server.ssh:
            return None
        return (
            f"--lab-file: {self.lab_file}: server: a live call's other end is a browser of this machine in a network "
            "namespace behind the router; give netns, not ssh (docs/calls.md)"
        )

    def but(self, **changes: Any) -> Options:
        """Return these options with some changed."""
        return replace(self, **changes)

    @property
    def needed_bytes(self) -> int:
        """Bytes that the evidence of such a run fits into with room to spare."""
        # Captures keep the headers, on both sides of the router: an eighth of full frames, a third of short ones.
        rates = (
            max(first or _ANY_RATE_BPS, *(step.rate_bps for step in steps), 0)
            for first, steps in ((self.rate_down_bps, self.rate_steps), (self.rate_up_bps, self.rate_up_steps))
        )
        captures = self.seconds * sum(rates) / 8 / 4
        return _SPARE_BYTES + round(self.seconds * _RECORDING_BPS / 8 + captures)

    @property
    def cell(self) -> str:
        """A short name of this point of the experiment, fit for a directory."""
        steps = "".join(f" {step.at_s:g}s {format_rate(step.rate_bps)}" for step in self.rate_steps)
        further = (f"{name} {text}" for name, text in (
            ("ip", self.ip_version == 6 and "6"),
            ("loss", self.loss_percent and f"{self.loss_percent:g}%"),
            ("jitter", self.jitter_us and format_time(self.jitter_us)),
            ("bursts", self.bursts_us and "-".join(map(format_time, dict.fromkeys(self.bursts_us)))),
        ) if text)  # fmt: skip
        queue = self.box or self.lab if self.qdisc_down is None else str(self.qdisc_down)
        rate = [format_rate(self.rate_down_bps) + steps] if self.rate_down_bps else []
        rtt = [format_time(self.rtt_us)] if self.rtt_us is not None else []
        return " ".join([self.service, queue, *rate, *rtt, *further])

    def repetition(self, number: int) -> Options:
        """Return the options of repetition `number` (from 1 on): a seed and an order of contenders of its own."""
        if not self.repeat or self.repeat == 1:
            return self
        return self.but(seed=self.seed + number - 1, phases=tuple(reordered(self.phases, self.seed, number)))

    def record(self) -> dict[str, Any]:
        """Return every option as JSON-ready data, but for the key."""
        known: dict[str, Any] = {
            **asdict(self),
            **{name: str(path) if (path := getattr(self, name)) else None for name in _PATHS},
            **{name: [step.model_dump() for step in getattr(self, name)] for name in _STEPS},
            "qdisc_down": str(self.qdisc_down) if self.qdisc_down else None,
            "qdisc_up": str(self.qdisc_up) if self.qdisc_up else None,
        }
        del known["sign"]
        return known


def restored(record: Mapping[str, Any], services: Mapping[str, type[Service]]) -> Options:
    """Return the options that `Options.record` wrote, of a run's options.json, which may be a stranger's.

    The record is turned into the words of a command line and parsed as these are. Raises `OptionsError` for what the
    command line refuses or makes another value of, and for a record of another version of Sojourn.
    """
    names = {field.name for field in fields(Options)} - {"sign"}
    if odd := sorted(names ^ set(record)):
        raise VersionError(f"options.json: of another version of Sojourn: {', '.join(odd)}")
    try:
        given = words(record)
        options = parse_options({}, services, given).but(results=Path(_said(record, "results", _text) or ""))
        made = json.loads(json.dumps(options.record()))
    except (OSError, RuntimeError, ValueError) as wrong:  # of paths Python's versions tell in several ways
        raise OptionsError(f"options.json: {wrong}") from wrong
    if other := next((name for name, value in record.items() if made[name] != value), None):
        raise OptionsError(
            f"options.json: {other}: {reprlib.repr(record[other])} is nothing that a {options.service} run in the "
            f"{options.lab} lab can have; was the file changed?"
        )
    # A number that is equal may be of another type, which a job's bytes show.
    return options.but(phases=tuple(Phase(**phase) for phase in record["phases"]))


def words(record: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return the options of a record by their names on the command line, each as its text there.

    Raises ValueError for a value of another type than its option's.
    """
    rates = {"rate": ("rate_down_bps", "rate_steps"), "rate-up": ("rate_up_bps", "rate_up_steps")}
    texts: dict[str, str | bool | None] = {
        **{field.replace("_", "-"): _said(record, field, _text) for field in _TEXTS},
        "live": _said(record, "live", _flag),
        "lab": _said(record, "asked_lab", _text),
        "buffer": _said(record, "buffer_s", _number),
        "max-quality": _said(record, "max_quality", lambda it: f"{_number(it)}p"),
        "ladder": _said(record, "ladder", lambda it: ",".join(f"{_number(p)}p:{_number(bps)}bit" for p, bps in it)),
        "call-bitrate": _said(record, "call_bitrate_bps", lambda it: f"{_number(it)}bit"),
        "qdisc": _said(record, "qdisc_down", _text),
        "rtt": _said(record, "rtt_us", lambda it: f"{_number(it)}us"),
        "ip-version": _said(record, "ip_version", _number),
        "loss": _said(record, "loss_percent", lambda it: f"{_number(it)}%"),
        "jitter": _said(record, "jitter_us", lambda it: f"{_number(it)}us"),
        "bursts": _said(record, "bursts_us", lambda it: "-".join(f"{_number(us)}us" for us in it)),
        "timeline": _said(record, "phases", lambda it: ",".join(map(_phase_word, it))),
        "jitter-gate": _said(record, "jitter_gate_ms", lambda it: f"{_number(it)}ms"),
        "seed": _said(record, "seed", _number),
        "repeat": _said(record, "repeat", _number),
    }
    for name, (first, steps) in rates.items():
        rate = _said(record, first, lambda it: f"{_number(it)}bit")
        later = _said(record, steps, lambda it: "".join(map(_step_word, it)))
        texts[name] = f"{rate}{later or ''}" if rate else None
    return {name: text for name, text in texts.items() if text is not None}


def _said(record: Mapping[str, Any], field: str, word: Callable[[Any], T]) -> T | None:
    """A field of a record as its option's word; None where it has none. Raises ValueError that names it."""
    value = record[field]
    if value is None or value == "" or value == [] or (field in _ZEROS and value == 0):
        return None
    try:
        return word(value)
    except (TypeError, ValueError, KeyError) as wrong:
        raise ValueError(f"{field}: {reprlib.repr(value)} is nothing that Sojourn writes") from wrong


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{reprlib.repr(value)} is no text")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{reprlib.repr(value)} is neither true nor false")
    return value


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{reprlib.repr(value)} is no number")
    return repr(value)


def _phase_word(phase: Any) -> str:
    """A phase of a record as a timeline has it; its name follows from all of them."""
    contender = "solo" if phase["contender"] is None else _text(phase["contender"])
    return f"{contender}:{_number(phase['seconds'])}"


def _step_word(step: Any) -> str:
    return f",{_number(step['at_s'])}s:{_number(step['rate_bps'])}bit"


class _Given:
    """What was asked of a run, before it is parsed: the text of each option, and what is watched where."""

    def __init__(
        self, given: Mapping[str, Any], services: Mapping[str, type[Service]], defaults: Mapping[str, Any]
    ) -> None:
        self.named = {name: value for name, value in given.items() if value is not None}
        self.known, self.services = {**defaults, **self.named}, services
        self.raw: dict[str, Any] = {option.name: option.default for option in OPTIONS} | self.known
        victim = services.get(str(self.raw["service"]))
        self.raw |= {n: text for n, text in (victim.defaults if victim else {}).items() if n not in self.known}
        self.lab = self.chosen("lab") if self.raw["lab"] else "sim"
        self.service = self.chosen("service", services)
        self.takes = services[self.service].takes
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
        """Where the value of an option comes from, as an error begins: the file that gives it, or the option."""
        value = self.raw[name]
        return f"{value.file}: {name}" if isinstance(value, FromFile) else f"--{name}"

    @property
    def timeline(self) -> str:
        """The timeline in an error: what the user typed, or what file gives it."""
        value = self.raw["timeline"]
        return f"the timeline of {value.file}" if isinstance(value, FromFile) else "--timeline"

    def cut_short(self, name: str) -> bool:
        """Whether a file gives an option, and somebody else the timeline: what lies beyond its end has no effect."""
        file = getattr(self.raw[name], "file", None)
        given = (self.known[it] for it in ("timeline", "contenders") if it in self.known)
        return file is not None and any(getattr(value, "file", None) != file for value in given)

    def parsed(self, name: str, parser: Callable[[str], T]) -> T:
        try:
            return parser(str(self.raw[name]))
        except ValueError as wrong:
            raise OptionsError(f"{self.where(name)}: {wrong}") from wrong

    def parsed_if(self, name: str, parser: Callable[[str], T]) -> T | None:
        """The same; None where nothing is given."""
        return self.parsed(name, parser) if self.raw[name] else None

    def chosen(self, name: str, choices: Iterable[str] = ()) -> str:
        text, known = str(self.raw[name]), list(choices or _BY_NAME[name].choices)
        if text not in known:
            hint = "; ".join(filter(None, (f"known: {', '.join(known)}", did_you_mean(text, known))))
            raise OptionsError(f"{self.where(name)}: unknown {text!r}; {hint}")
        return text

    def file(
        self, name: str, what: str, right: str, *, whole: Callable[[Path], Path] = Path.resolve, runs: bool = False
    ) -> Path | None:
        """The file that an option names, a program if it `runs`; None where nothing is given."""
        path = self.parsed_if(name, lambda text: whole(expanded(text)))
        if path and not (path.is_file() and (not runs or os.access(path, os.X_OK))):
            raise OptionsError(f"{self.where(name)}: no such {what}: {path}; give {right}")
        return path


@dataclass(frozen=True)
class _Rule:
    """An option that cannot work with others: when, why, and what would be right; {lab} and {timeline} are named."""

    option: str
    when: Callable[[_Given], Any]
    why: str


_RULES = (
    _Rule(
        "live", lambda it: it.live and it.lab not in ("virtual", ROUTER_LAB),
        f"the {{lab}} lab has no internet; use {_WITH_INTERNET}, or leave --live out",
    ),
    _Rule(
        "url", lambda it: it.raw["url"] and it.mode != "own" and it.lab == "sim",
        f"the sim lab reaches no server but its own; use {_WITH_INTERNET}, or leave it out",
    ),
    _Rule(
        "ip-version",
        lambda it: str(it.raw["ip-version"]) == "6" and it.lab == "virtual" and it.mode in ("live", "stream"),
        "the virtual lab's way to the internet is IPv4; leave it out",
    ),
    _Rule(
        "lab-file", lambda it: "lab-file" in it.named and it.lab not in PHYSICAL,
        "the {lab} lab has none; use --lab=apu or --lab=black-box, or leave --lab-file out",
    ),
    _Rule(
        "browser", lambda it: it.named.get("browser") and it.lab == "sim",
        "the sim lab has a Chromium of its own; use another lab, or leave it out",
    ),
    _Rule(
        "kernel-source", lambda it: "kernel-source" in it.named and it.lab in PHYSICAL,
        "a physical router has its own kernel; leave it out",
    ),
    *(
        _Rule(
            name, lambda it, name=name: it.lab == BOX_LAB and name in it.named,  # type: ignore[misc]
            f"a black box decides that itself; use --lab=apu, or leave --{name} out",
        )
        for name in _DECIDED
    ),
    *(
        _Rule(
            name, lambda it, name=name: it.lab == BOX_LAB and "," in str(it.named.get(name)),  # type: ignore[misc]
            "nobody steps a black box's rate; use the one that it is said to have",
        )
        for name in _SAID
    ),
    _Rule(
        "jitter-gate", lambda it: it.lab == BOX_LAB and "jitter-gate" in it.named,
        "nothing passes a black box beside its queue; leave --jitter-gate out",
    ),
    _Rule(
        "origin-cc", lambda it: "origin-cc" in it.named and it.raw["origin-protocol"] == "h3",
        "HTTP/3 has its own; use --origin-protocol=h2, or leave --origin-cc out",
    ),
    _Rule(
        "contenders",
        lambda it: "contenders" in it.named and names_loads(it.raw["timeline"]),
        "{timeline} names its own; take a named timeline, such as --timeline=short, or leave it out",
    ),
    _Rule(
        "max-quality", lambda it: it.raw["ladder"] and it.raw["max-quality"],
        "the ladder's last rung says it; leave it out, or --ladder",
    ),
    _Rule(
        "engine", lambda it: it.raw["engine"] != LOCAL and it.lab != "sim",
        "the {lab} lab runs on this machine alone; use --lab=sim, or leave --engine out",
    ),
    _Rule(
        "clip", lambda it: it.raw["engine"] != LOCAL and it.raw["clip"],
        "a cluster's workers have no such film; use --engine=local, or leave --clip out",
    ),
    _Rule(
        "url", lambda it: it.raw["engine"] != LOCAL and it.mode == "own",
        "a cluster's workers have no such folder; use --engine=local, or leave --url out",
    ),
)  # fmt: skip


def parse_options(
    given: Mapping[str, Any], services: Mapping[str, type[Service]], defaults: Mapping[str, Any] = MappingProxyType({})
) -> Options:
    """Check `given` (option name with dashes → text or bool; None where not given) and return the options of a run.

    `services` are those that `service` may name. `defaults` go before what a service brings, and that before ours; one
    that has no effect is passed over, where a given one is refused. Raises `OptionsError` for the first option that
    cannot work.
    """
    for name, instead in FORMER.items():
        if given.get(name) is not None:
            raise OptionsError(f"--{name}: is no option any more: {instead}")
    asked = _Given(given, services, defaults)
    _leave_useless(asked)
    _complete(asked)
    engine = asked.parsed("engine", engine_named)
    for rule in _RULES:
        if rule.when(asked):
            why = rule.why.format(lab=asked.lab, timeline=asked.timeline)
            raise OptionsError(f"{asked.where(rule.option)}: {why}")
    _keep_account(asked)
    phases = _phases(asked)
    return Options(
        phases=phases,
        results=asked.parsed("results", expanded).resolve(),
        seed=asked.parsed("seed", int),
        repeat=asked.parsed_if("repeat", _count),
        engine=engine,
        sign=asked.file("sign", "key", "an ssh key, such as ~/.ssh/id_ed25519"),
        **_victim(asked),
        **_path(asked, sum(phase.seconds for phase in phases)),
        **_recording(asked),
        **_lab(asked),
    )


def _leave_useless(asked: _Given) -> None:
    """Put back what has no effect on what is watched. Raises OptionsError where it was named."""
    for name in sorted({name for service in asked.services.values() for name in service.takes}):
        relayed = name == _RELAYED and asked.lab == "virtual" and asked.mode in ("stream", "live")
        if asked.mode not in asked.takes.get(name, ()) and not relayed:
            if name in asked.named and asked.named[name] is not False:
                raise OptionsError(f"{asked.where(name)}: {_useless(name, asked.service, asked.mode, asked.services)}")
            asked.raw[name] = _BY_NAME[name].default


def _keep_account(asked: _Given) -> None:
    """Raise OptionsError where a file says to which site the user's account goes, and the user does not."""
    url = asked.raw["url"]
    if not (asked.live and isinstance(url, FromFile)):
        return
    named = [f"--{name}" for name in ("credentials", "profile") if asked.raw[name]]
    if account := named or account_variables(asked.service):
        raise OptionsError(
            f"--url: {url.file} sends your account ({', '.join(account)}) to {url}; confirm it with --url={url}, or "
            "leave the account out"
        )


def _complete(asked: _Given) -> None:
    """Fill in what depends on other options: what a live run, a lab of its own and a black box have for default."""
    raw = asked.raw
    if asked.live and "timeline" not in asked.known:
        raw["timeline"] = "published"
    if asked.lab == "sim":
        raw["browser"] = None
    if asked.lab == BOX_LAB:
        said = {name: text for name in _SAID if "," not in str(text := asked.known.get(name))}
        raw |= dict.fromkeys((*_DECIDED, *_SAID, "jitter-gate")) | said
    elif not raw["rate-up"]:
        raw["rate-up"] = raw["rate"]


def _phases(asked: _Given) -> tuple[Phase, ...]:
    contenders = tuple("".join(name.split()) for name in str(asked.raw["contenders"]).split(","))
    phases = asked.parsed("timeline", lambda text: parse_timeline(text, contenders))
    try:
        for phase in phases:
            parse_load("cubic" if phase.contender is None else phase.contender)
    except ValueError as wrong:
        named = "timeline" if names_loads(asked.raw["timeline"]) else "contenders"
        raise OptionsError(f"{asked.where(named)}: {wrong}") from wrong
    return tuple(phases)


def _victim(asked: _Given) -> dict[str, Any]:
    url = str(asked.raw["url"])
    if asked.mode == "own":
        url = str(asked.file("url", "file", "a page or playlist in a folder of yours, or https://…"))
    max_quality = asked.chosen("max-quality") if asked.raw["max-quality"] else None
    return {
        "service": asked.service,
        "live": asked.live,
        "video_id": str(asked.raw["video-id"]),
        "url": url,
        "script": asked.parsed_if("script", lambda text: expanded(text).resolve()),
        "credentials": asked.parsed_if("credentials", expanded),
        "origin_cc": asked.chosen("origin-cc"),
        "origin_protocol": asked.chosen("origin-protocol"),
        "buffer_s": asked.parsed("buffer", _seconds),
        "max_quality": int(max_quality[:-1]) if max_quality else None,
        "clip": asked.file("clip", "file", "a film that ffmpeg reads"),
        "ladder": asked.parsed_if("ladder", parse_ladder) or (),
        "call_bitrate_bps": _itself(rate_option, asked, "call-bitrate") if asked.raw["call-bitrate"] else None,
        "call_ecn": asked.chosen("call-ecn"),
        "browser": asked.file(
            "browser", "program", "one such as /usr/bin/google-chrome", whole=Path.absolute, runs=True
        ),
        "profile": asked.parsed_if("profile", lambda text: expanded(text).resolve()),
    }  # fmt: skip


def _path(asked: _Given, seconds: float) -> dict[str, Any]:
    """What is asked of the bottleneck and the path through it, for a timeline of so many seconds."""

    def scheduled(name: str) -> tuple[int | None, tuple[RateStep, ...]]:
        cut = asked.cut_short(name)
        return _itself(lambda text, option: _scheduled(text, option, seconds, cut), asked, name) or (None, ())

    qdisc = _itself(parse_qdisc, asked, "qdisc")
    rate, steps = scheduled("rate")
    rate_up, up_steps = scheduled("rate-up")
    rtt_us = _itself(rtt_option, asked, "rtt")
    half_us = (rtt_us or 0) // 2
    ip_version = _ip_version(asked.chosen("ip-version")) if asked.raw["ip-version"] else None
    return {
        "qdisc_down": qdisc,
        "qdisc_up": _itself(parse_qdisc, asked, "qdisc-up") if asked.raw["qdisc-up"] else qdisc,
        "rate_down_bps": rate,
        "rate_up_bps": rate_up,
        "rate_steps": steps,
        "rate_up_steps": up_steps,
        "rtt_us": rtt_us,
        "loss_percent": asked.parsed_if("loss", _share) or 0.0,
        "jitter_us": asked.parsed_if("jitter", lambda text: _at_most(text, half_us, "half of --rtt")) or 0,
        "bursts_us": asked.parsed_if("bursts", _bursts),
        "ip_version": ip_version or (None if asked.lab in PHYSICAL else 4),
    }


def _recording(asked: _Given) -> dict[str, Any]:
    jitter_us = asked.parsed_if("jitter-gate", parse_time)
    return {
        "driver": asked.chosen("driver"),
        "recorder": asked.chosen("recorder"),
        "jitter_gate_ms": None if jitter_us is None else jitter_us / 1000,
    }


def _lab(asked: _Given) -> dict[str, Any]:
    return {
        "lab": asked.lab,
        "asked_lab": asked.lab if asked.raw["lab"] else "",
        "lab_file": asked.parsed("lab-file", expanded),
        "kernel_source": asked.parsed_if("kernel-source", lambda text: kernel_source.checked(expanded(text))),
    }


def _itself(parser: Callable[[str, str], T], asked: _Given, name: str) -> T | None:
    """What a parser gives that names the option in its errors itself; None where nothing is given."""
    if asked.raw[name] is None:
        return None
    try:
        return parser(str(asked.raw[name]), asked.where(name))
    except ValueError as wrong:
        raise OptionsError(str(wrong)) from wrong


def _useless(name: str, service: str, mode: Mode, services: Mapping[str, type[Service]]) -> str:
    """Why an option would have no effect, and what to do."""
    if modes := services[service].takes.get(name):
        return f"has no effect on {_MODES[mode]}, only on {' or '.join(_MODES[it] for it in modes)}; leave it out"
    others = [other for other, kind in services.items() if name in kind.takes]
    return f"has no effect on --service={service}, only on {', '.join(others)}; leave it out"


def names_loads(timeline: Any) -> bool:
    """Return whether a timeline names its own loads, as `solo:20,cubic:40` does and `short` does not."""
    return str(timeline) not in TIMELINES


def engine_named(text: str) -> str:
    """Return an engine's name.

    Raises ValueError for what is neither this machine nor an address, and for one where others can take part: Dask's
    scheduler, workers and clients run whatever they are sent (https://distributed.dask.org/en/stable/tls.html).
    """
    if text == LOCAL:
        return text
    if "://" not in text:
        raise ValueError(f"{text!r} is neither local nor tls://HOST:PORT or dask://localhost:PORT")
    where = urlsplit(text)
    if where.scheme not in ("tls", UNSAFE) and not _is_loopback(where.hostname or ""):
        raise ValueError(
            f"{text!r}: whoever reaches it runs what they want on its workers and here; use tls://, or {UNSAFE}:// on "
            "a network that is yours alone"
        )
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _scheduled(text: str, option: str, seconds: float, cut: bool) -> tuple[int, tuple[RateStep, ...]]:
    """Return the first rate of `RATE[,TIME:RATE…]` and its steps, of a timeline of `seconds`.

    `cut`: the steps beyond its end are left out. Raises ValueError.
    """
    first, *rest = text.split(",")
    steps: list[RateStep] = []
    for part in rest:
        at, colon, rate = part.partition(":")
        if not colon:
            raise ValueError(f"{option}: {part.strip()!r} is no step; give TIME:RATE, as in 10mbit,30s:5mbit")
        try:
            at_s = parse_time(at) / 1e6
        except ValueError as wrong:
            raise ValueError(f"{option}: {wrong}") from wrong
        if not (steps[-1].at_s if steps else 0) < at_s < (inf if cut else seconds):
            raise ValueError(
                f"{option}: a step at {at_s:g} s; give ascending times within the timeline's {seconds:g} s"
            )
        steps.append(RateStep(at_s=at_s, rate_bps=rate_option(rate.strip(), option)))
    return rate_option(first.strip(), option), tuple(step for step in steps if step.at_s < seconds)


def _ip_version(text: str) -> IpVersion:
    return next(version for version in IP_VERSIONS if text == str(version))


def _share(text: str) -> float:
    percent = parse_percent(text)
    if not 0 < percent <= _MOST_LOSS:
        raise ValueError(f"{text!r} is no share that a path may lose; give 0.01% to {_MOST_LOSS:g}%")
    return percent


def _at_most(text: str, most_us: int, what: str) -> int:
    time_us = parse_time(text)
    if not 0 < time_us <= most_us:
        raise ValueError(f"{text!r} is out of range; give at most {format_time(most_us)}, {what}")
    return time_us


def _bursts(text: str) -> tuple[int, int]:
    least, _, most = text.partition("-")
    times = parse_time(least), parse_time(most or least)
    if not 0 < times[0] <= times[1] <= _LONGEST_BURST_US:
        raise ValueError(f"{text!r} is no time between bursts; give one up to 100ms or two, as in 1ms-8ms")
    return times


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_RUNS:
        raise ValueError(f"{text!r} is no number of runs; give 1 to {_MOST_RUNS}, a result needs 5")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text.removesuffix("s"))
    except ValueError:
        value = 0.0
    if not 2 <= value <= 120:
        raise ValueError(f"{text!r} is no buffer length; give 2 to 120 seconds")
    return value
