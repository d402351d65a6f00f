# SPDX-License-Identifier: Apache-2.0
"""The options of a run, each declared once: all that sets, shows, stores or passes one is derived from here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, InstanceOf, PlainSerializer

from sojourn.apps import SERVICES
from sojourn.apps.options import Group, Option, ServiceOptions, existing, resolved
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import KINDS, Qdisc
from sojourn.bottleneck.rig import EXACT, Rig, draw
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.spec import Bottleneck, Direction
from sojourn.bottleneck.units import format_rate, format_time, rtt_option
from sojourn.hardware.images import own_tc
from sojourn.hardware.kernel_build import kernel_source
from sojourn.hardware.kernel_build.sources import Sources
from sojourn.hardware.machine.files import expanded
from sojourn.hardware.machine.ip import IP_VERSIONS
from sojourn.harness.options import parsing
from sojourn.harness.options.timeline import LONGER_S, TIMELINES, Phase, reordered
from sojourn.traffic.load import KNOWN, RPM, VIDEO
from sojourn.traffic.user_program import UserProgram

GROUPS: dict[Group, str] = {
    "victim": "the victim: the service under test",
    "path": "the path: bottleneck and delay",
    "contenders": "the contenders: competing traffic, and when",
    "recording": "the recording",
    "lab": "the lab: where a run is executed",
    "evidence": "the evidence: repetitions and results",
}
"""Groups of options, as --help shows them."""
ELSEWHERE = {"preset": "Sojourn calls a preset a scenario; use --scenario, such as --scenario=access-line"}
"""Names of other tools for options of the command line."""
DEFAULT_QUEUE = (
    "the published experiment's queue: a single shared queue with an AQM that marks, a laboratory case, not what "
    "access lines ship"
)
"""A description of the default of --qdisc."""
ALL = "all"
"""The value of --service that makes every published run."""
RETAIN_ON_FAILURE = "retain-on-failure"
"""The value of --video that deletes the recordings of valid runs, as pytest-playwright calls it."""
NO_VIDEO = "off"
"""The value of --video that makes no recording, as --recorder=none does."""
_SPARE_BYTES = 150 << 20
_RECORDING_BPS = 4_000_000
#: The rate that captures must have room for if the bottleneck's rate is unknown.
_ANY_RATE_BPS = 100_000_000


def _queue(value: object) -> Qdisc:
    """Reject a JSON object, which pydantic would turn into a Qdisc without a kind."""
    if isinstance(value, Qdisc):
        return value
    if isinstance(value, str):
        return parsing.queue(value)
    raise ValueError("not a queue discipline")


Queue = Annotated[InstanceOf[Qdisc], BeforeValidator(_queue), PlainSerializer(str)]


class Options(ServiceOptions):
    """The options of one run. Rates are in bit/s, times in seconds unless the name says otherwise.

    The queue and the round-trip time of a black box are None; its rates are those that the user states, if any.
    """

    qdisc_down: Annotated[
        Queue | None,
        Option(
            "path", "what", f"Queue discipline of the bottleneck, in tc's words; the default is {DEFAULT_QUEUE}",
            "fq_codel flows 1", "qdisc", parsing.queue, examples=tuple(KINDS),
        ),
    ]  # fmt: skip
    qdisc_up: Annotated[
        Queue | None,
        Option("path", "what", "Queue discipline of the uplink (default: that of --qdisc)", name="qdisc-up",
               parse=parsing.queue, examples=tuple(KINDS)),
    ] = None  # fmt: skip
    rate_down_bps: Annotated[
        int | None,
        Option(
            "path", "what",
            "Bottleneck rate towards the client; 10mbit,30s:5mbit changes to 5mbit 30 s into the timeline; for a black "
            "box: its nominal rate",
            "10mbit", "rate", parsing.rate_schedule, parsing.schedule_text, second="rate_steps",
        ),
    ]  # fmt: skip
    rate_up_bps: Annotated[
        int | None,
        Option("path", "what", "Bottleneck rate away from the client (default: that of --rate)", name="rate-up",
               parse=parsing.rate_schedule, word=parsing.schedule_text, second="rate_up_steps"),
    ] = None  # fmt: skip
    rtt_us: Annotated[
        int | None,
        Option("path", "what", "Round-trip time that the path adds, half in each direction", "20ms", "rtt", rtt_option,
               "{}us".format),
    ]  # fmt: skip
    ip_version: Annotated[
        Literal[4, 6] | None,
        Option(
            "path", "what", "IP version of all traffic: 4 or 6 (default: 4; with a lab file, that of its addresses)",
            parse=int, choices=tuple(map(str, IP_VERSIONS)),
        ),
    ] = None  # fmt: skip
    rate_steps: tuple[RateStep, ...] = ()
    rate_up_steps: tuple[RateStep, ...] = ()
    loss_percent: Annotated[
        float,
        Option("path", "what", "Random packet loss, in each direction: 0.5%", name="loss", parse=parsing.loss_percent,
               word="{!r}%".format),
    ] = 0.0  # fmt: skip
    jitter_us: Annotated[
        int,
        Option("path", "what", "Random variation of the delay, in each direction; it reorders packets: 2ms",
               name="jitter", parse=parsing.jitter_us, word="{}us".format),
    ] = 0  # fmt: skip
    bursts_us: Annotated[
        tuple[int, int] | None,
        Option(
            "path", "what",
            "Release packets in bursts, as Wi-Fi and LTE do, in each direction: every 5ms, or at random intervals of "
            "1ms-8ms",
            name="bursts", parse=parsing.bursts_us, word=lambda times: "-".join(f"{us}us" for us in times),
        ),
    ] = None  # fmt: skip
    phases: Annotated[
        tuple[Phase, ...],
        Option(
            "contenders", "what",
            "steady (60/40/20/40/20 s; the default in sim), short (20/40/20/40/20 s; the default in real time), "
            "published (60/120/60/120/60 s; the default with --live) or solo:20,cubic:40,solo:20+,…; +, as in named "
            "timelines after a contender: until the picture has had its height alone for 10 s",
            "steady", "timeline", word=parsing.timeline_text, examples=tuple(sorted(TIMELINES, reverse=True)),
        ),
    ]  # fmt: skip
    contenders: Annotated[
        str | None,
        Field(exclude=True),
        Option(
            "contenders", "what",
            "Competing loads of a named timeline, in order; several at once and uploads: cubic*4, prague+cubic@up, "
            "cubic+web (web: a user who fetches pages; video: a second video; call: a call; rpm: a "
            "Responsiveness Test), program:FILE.toml (your "
            "own sender, docs/your-sender.md). "
            f"Known: {', '.join(KNOWN)}",
            "cubic,prague", examples=tuple(KNOWN), stored=False,
        ),
    ] = None  # fmt: skip
    scenario: Annotated[
        Path | None,
        Field(exclude=True),
        Option(
            "contenders", "how",
            "TOML file with options of victim, path and contenders, or an included one by its name: access-line, "
            "evening, household, household-short; options on the command line override it (docs/options.md)",
            stored=False,
        ),
    ] = None  # fmt: skip
    jitter_gate_ms: Annotated[
        float | None,
        Option(
            "recording", "how",
            "Maximum P99 jitter that the lab may add to an unshaped probe, else the run is invalid (default: 50us in "
            "sim, 2ms in other labs)",
            name="jitter-gate", parse=parsing.jitter_gate_ms, word="{!r}ms".format,
        ),
    ] = None  # fmt: skip
    rpm: Annotated[
        bool,
        Field(exclude_if=lambda probes: not probes),  # as in the records of earlier versions
        Option(
            "recording", "how",
            "on: send foreign probes of the Responsiveness Test (new TCP, TLS and HTTP/2 connections) from client to "
            "server throughout, and report their round trips per minute (docs/measurement.md); off: none (default: on "
            "in sim, off in other labs)",
            parse=lambda text: text == "on", word=lambda on: "on" if on else "off", choices=("on", "off"),
        ),
    ] = False  # fmt: skip
    results: Annotated[Path, Option("evidence", "how", "Folder for run directories", "results", parse=resolved)]
    kernel_source: Annotated[
        Path | None,
        Option(
            "lab", "who",
            "Linux for the machines of the labs sim and virtual: a tar file, a folder or a git tree (default: Debian's "
            "newest 7.x); or a folder with your sch_*.c or tcp_*.c, which are built into it (docs/your-qdisc.md)",
            parse=lambda text: kernel_source.checked(expanded(text)), guest=False,
        ),
    ] = None  # fmt: skip
    iproute2_source: Annotated[
        Path | None,
        Field(exclude_if=lambda folder: folder is None),  # as in the records of earlier versions
        Option(
            "lab", "who",
            "tc for the machines of the labs sim and virtual: an iproute2 tree, or a folder with a q_NAME.c for each "
            "of your qdiscs (default: the q_*.c next to your sch_*.c)",
            parse=lambda text: own_tc.checked(expanded(text)), guest=False,
        ),
    ] = None  # fmt: skip
    seed: Annotated[
        int, Option("evidence", "how", "Seed of all randomness; recorded with the run", "1", parse=parsing.seed)
    ]
    exact: Annotated[
        bool,
        Option(
            "path", "what",
            "Run exactly the given RTT, without the rig that a seed otherwise samples: RTT within 5%, bunched packets "
            "(docs/measurement.md)",
        ),
    ] = False  # fmt: skip
    repeat: Annotated[
        int | None,
        Option(
            "evidence", "how",
            "Number of valid runs, with seeds from --seed on and the contenders in balanced random order; at most 2 "
            "further attempts (default: 1 run; matrices: runs per cell, default from the matrix)",
            parse=parsing.run_count, guest=False,
        ),
    ] = None  # fmt: skip
    engine: Annotated[
        str,
        Option(
            "lab", "who",
            "Where runs in simulated time are executed: local, or tls://HOST:PORT for a Dask cluster; every seed of "
            "--repeat, or cell of a matrix, is one job",
            parsing.LOCAL, parse=parsing.engine_address, guest=False,
        ),
    ]  # fmt: skip
    video: Annotated[
        Literal["on", "retain-on-failure", "off"],
        Field(exclude=True),
        Option(
            "recording", "how",
            "Recordings to keep: on: all; retain-on-failure: only those of invalid runs, others are deleted once they "
            "are scored (such a run cannot be scored again); off: none is made, as with --recorder=none",
            "on", choices=("on", RETAIN_ON_FAILURE, NO_VIDEO), guest=False,
        ),
    ] = "on"  # fmt: skip
    """What is kept of a run does not change the experiment, and so is in no record."""
    box: str = ""
    """The lab file's name for the box under test."""
    programs: Annotated[tuple[UserProgram, ...], Field(exclude_if=lambda programs: not programs)] = ()
    """The user's programs among the contenders."""
    sign: Annotated[
        Path | None,
        Field(exclude=True),
        Option(
            "evidence", "who",
            "Sign the manifest of every run with this ssh key, which has no passphrase or is in an agent "
            "(docs/bundles.md)",
            parse=existing("key", "an ssh key, such as ~/.ssh/id_ed25519"), guest=False,
        ),
    ] = None  # fmt: skip
    """The key belongs to the person, not to the experiment, and so is in no record."""

    @property
    def sources(self) -> Sources:
        """The sources of the machines' kernel and tc."""
        return Sources(self.kernel_source, self.iproute2_source)

    @property
    def seconds(self) -> float:
        """The total length of all phases."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def longest_s(self) -> float:
        """The same if every phase lasts as long as it may."""
        return self.seconds + LONGER_S * sum(phase.at_least for phase in self.phases)

    @property
    def page_seed(self) -> int:
        """The seed of what a service draws."""
        return self.seed

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
    def rig(self) -> Rig:
        """The laboratory that the seed stands for; hosts in real time bunch packets themselves."""
        return draw(self.seed, bunching=self.lab == "sim") if self._draws else EXACT

    @property
    def drawn(self) -> dict[str, str]:
        """What the seed drew, for the manifest; an RTT that happens to be the specified one is drawn too."""
        return self.rig.words() or ({"RTT": "+0.00%"} if self._draws else {})

    @property
    def _draws(self) -> bool:
        return not self.exact and self.rtt_us is not None

    @property
    def second_video(self) -> bool:
        """Whether a second video competes in any phase."""
        return any(part.contender == VIDEO for phase in self.phases for part in phase.load)

    @property
    def responsiveness(self) -> bool:
        """Whether a server of the Responsiveness Test runs: for its probes, or as a contender."""
        return self.rpm or any(part.contender == RPM for phase in self.phases for part in phase.load)

    @property
    def uplink(self) -> str | None:
        """The congestion control with which a virtual lab's uplink relays inbound traffic; None without an uplink."""
        return self.origin_cc if self.elsewhere and self.lab == "virtual" else None

    def replace(self, **changes: Any) -> Self:
        """Return these options with some fields changed. Raises ValidationError for an invalid value."""
        return self.model_validate(dict(self) | changes)

    @property
    def needed_bytes(self) -> int:
        """Upper bound for the evidence of such a run, bytes."""
        # Captures keep the headers, on both sides of the router: an eighth of full frames, a third of small ones.
        rates = (
            max(first or _ANY_RATE_BPS, *(step.rate_bps for step in steps), 0)
            for first, steps in ((self.rate_down_bps, self.rate_steps), (self.rate_up_bps, self.rate_up_steps))
        )
        captures = self.longest_s * sum(rates) / 8 / 4
        recording = 0 if self.screening else self.longest_s * _RECORDING_BPS / 8
        return _SPARE_BYTES + round(recording + captures)

    @property
    def cell(self) -> str:
        """A short name of this point of the experiment, suitable for a directory."""
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
        """Return the options of repetition `number` (from 1 on): with its own seed and order of contenders."""
        if not self.repeat or self.repeat == 1:
            return self
        return self.replace(seed=self.seed + number - 1, phases=tuple(reordered(self.phases, self.seed, number)))

    def for_guest(self, results: Path) -> Self:
        """Return the options for a simulated machine: without the user's paths, account, name of a lab, …

        For a page or stream in the user's folder, it gets the file's name; the service provides the folder's copy.
        """
        url = Path(self.url).name if self.own_folder else ""
        return self.replace(**_OF_GUESTS, results=results, url=url)

    def record(self) -> dict[str, Any]:
        """Return every field but the key as JSON-ready data."""
        return self.model_dump(mode="json")


def _named(field: str) -> Option | None:
    info = Options.model_fields[field]
    option = next((it for it in info.metadata if isinstance(it, Option)), None)
    if option is None:
        return None
    # All services are known here, but not yet where the options of services are declared.
    choices = (*SERVICES, ALL) if field == "service" else option.choices
    return replace(
        option,
        field=field,
        name=option.name or field.replace("_", "-"),
        flag=info.annotation is bool and not choices,
        choices=choices,
    )


OPTIONS = tuple(
    option for group in GROUPS for option in filter(None, map(_named, Options.model_fields)) if option.group == group
)
"""All options, in the order of --help."""


def default_of(option: Option) -> Any:
    """Return the value of an option's field if nothing sets the option."""
    return option.parse(option.default) if option.default else Options.model_fields[option.field].get_default()


_OF_GUESTS = {
    option.field: default_of(option)
    for option in OPTIONS
    if not option.guest and option.field not in ("url", "results") and option.stored
}


def omitted_from_records(option: Option) -> bool:
    """Return whether a record of a run that has the option's default does not mention it."""
    omits = Options.model_fields[option.field].exclude_if
    return omits is not None and omits(default_of(option))


BY_NAME = {option.name: option for option in OPTIONS}
FLAGS = frozenset(option.name for option in OPTIONS if option.flag)


def _is_path(option: Option) -> bool:
    kind = Options.model_fields[option.field].annotation
    return Path in (kind, *get_args(kind))


PATHS = frozenset(option.name for option in OPTIONS if _is_path(option) and option.name != "results")
"""Options that are paths relative to the file that sets them; results are relative to the working directory."""
