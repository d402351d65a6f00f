# SPDX-License-Identifier: Apache-2.0
"""The definition of an option, and the options of a service; `harness/options/model.py` has all others."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sojourn.apps.standins.ladder import LADDER, parse_ladder
from sojourn.bottleneck.units import format_time, parse_time, rate_option
from sojourn.hardware.lab.lab_file import LABS, read_lab_file
from sojourn.hardware.machine.errors import Code
from sojourn.hardware.machine.files import expanded

Group = Literal["victim", "path", "contenders", "recording", "lab", "evidence"]
Subject = Literal["what", "content", "how", "who"]
"""The subject of an option, which decides where it may be set.

`what` is measured: any file. `content`, the media that is played: any file, as an address or as a path in the file's
folder. `how` often, with which instruments, and where the evidence goes: also a defaults file. `who`, a program, an
account or a machine: only the command line and the user's environment.
"""
DRIVERS, RECORDERS = ("playwright", "selenium"), ("ffmpeg", "obs")
"""The browser drivers (apps/browsers/drivers.py) and the screen recorders (captures/recorders.py)."""
PLAYERS = (
    *("dash-dynamic", "dash-bola", "dash-throughput", "dash-l2a", "dash-lolp"),
    *("shaka", "hls.js", "rx-player", "video.js"),
)
"""The players of a stand-in's film (apps/players/__init__.py)."""
LOW_LATENCY_PLAYERS = (*PLAYERS[:5], "hls.js")
"""Those that play a broadcast with low latency."""
CMCD_PLAYERS = PLAYERS[:5]
"""Those that report their buffer to the origin if the manifest requests it (CMCD)."""
SEGMENTS = ("500ms", "1s", "2s", "4s", "6s", "10s")
"""The lengths of segments: whole frames in each of the 5 chunks; 60 s of film, and a film of yours, are multiples."""
SABR_POLICIES = ("buffer", "throughput", "hybrid")
"""How the server of the SABR stand-in chooses (apps/standins/sabr/policies.py)."""
SCREENING = "none"
"""The recorder of a screening run: the picture is the player's log of presented frames."""
_PARTIES = (2, 8)
_HIGHEST_DSCP = 63


class BadValue(ValueError):
    """A text is not a value of its option; the message says what would be right, without the option's name."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Option:
    """How a text sets a field of the options: on the command line, in a file or in the environment."""

    group: Group
    subject: Subject
    help: str
    default: str | None = None
    """The text that applies if nothing sets the option. None: the field keeps its own default, as for ''."""
    name: str = ""
    """Its name on the command line if it differs from the field's name."""
    parse: Callable[[str], Any] = str
    """Returns the field's value. Raises ValueError."""
    word: Callable[..., str] = str
    """Returns the text from which `parse` makes the value."""
    choices: tuple[str, ...] = ()
    """All accepted texts."""
    examples: tuple[str, ...] = ()
    """Some accepted texts, for completion."""
    second: str = ""
    """A second field, which takes the second part of the result of `parse`."""
    stored: bool = True
    """Whether the field keeps its value; otherwise it becomes part of another field."""
    guest: bool = True
    """Whether a simulated machine receives the value."""
    field: str = ""
    flag: bool = False

    @property
    def text(self) -> str:
        """The text for --help: choices and the default come last."""
        offered = self.choices or self.examples
        listed = f": {', '.join(offered)}" if offered and offered[0] not in self.help else ""
        return self.help + listed + (f" (default: {self.default})" if self.default else "")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"SOJOURN_{self.name.replace('-', '_').upper()}"


def seconds_within(low: int, high: int) -> Callable[[str], float]:
    """Return a parser for a number of seconds, `12` or `12s`, in these limits; it raises BadValue."""

    def parse(text: str) -> float:
        try:
            seconds = float(text.removesuffix("s"))
        except ValueError:
            raise BadValue("invalid-value", f"{text!r} is not a number of seconds; give {low} to {high}") from None
        if not low <= seconds <= high:
            raise BadValue("out-of-range", f"{text!r} is out of range; give {low} to {high} seconds")
        return seconds

    return parse


def party_count(text: str) -> int:
    """Return the number of parties of a room. Raises BadValue."""
    if not text.isdecimal():
        raise BadValue("invalid-value", f"{text!r} is not a number of parties; give {_PARTIES[0]} to {_PARTIES[1]}")
    if not _PARTIES[0] <= int(text) <= _PARTIES[1]:
        raise BadValue("out-of-range", f"{text!r} is out of range; give {_PARTIES[0]} to {_PARTIES[1]} parties")
    return int(text)


def dscp(text: str) -> int:
    """Return a differentiated services codepoint (RFC 2474). Raises BadValue."""
    if not text.isdecimal():
        raise BadValue("invalid-value", f"{text!r} is not a DSCP; give 0 to {_HIGHEST_DSCP}, such as 45 (NQB)")
    if int(text) > _HIGHEST_DSCP:
        raise BadValue("out-of-range", f"{text!r} is out of range; give 0 to {_HIGHEST_DSCP}")
    return int(text)


def resolved(text: str) -> Path:
    """Return an absolute path without symbolic links. Raises ValueError."""
    return expanded(text).resolve()


def existing(what: str, right: str, *, program: bool = False) -> Callable[[str], Path]:
    """Return a parser for the path of an existing file; a `program` keeps its symbolic links and must be executable."""

    def parse(text: str) -> Path:
        path = expanded(text).absolute() if program else resolved(text)
        if not (path.is_file() and (not program or os.access(path, os.X_OK))):
            raise BadValue("not-a-file", f"no such {what}: {path}; give {right}")
        return path

    return parse


def rungs_text(rungs: tuple[tuple[int, int], ...]) -> str:
    """Return the text of a ladder."""
    return ",".join(f"{lines}p:{bps}bit" for lines, bps in rungs)


class ServiceOptions(BaseModel):
    """The options of a service; rates in bit/s, times in s."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    service: Annotated[
        str,
        Option(
            "victim", "what", "Service to watch; all (not in maps): every published run with its options", "youtube"
        ),
    ]
    live: Annotated[
        bool,
        Option("victim", "who", "Open the real service instead of its stand-in (needs --lab=virtual or --lab=apu)"),
    ] = False
    video_id: Annotated[str, Option("victim", "what", "With --live: the YouTube video", "aqz-KE-bpKQ")]
    url: Annotated[
        str,
        Option(
            "victim", "content",
            "Television: an HLS or DASH stream, or with --live the channel's page. page: any page with a video. "
            "profile: a service's profile. With --live: a meeting's link. The lab's origin serves a file on this "
            "machine, with its whole folder. web: a HAR or WARC file, whose requests it replays",
            guest=False,
        ),
    ] = ""  # fmt: skip
    script: Annotated[
        Path | None,
        Option(
            "victim", "who",
            "Page: file with a JavaScript function that starts playback; called until a video plays",
            parse=resolved, guest=False,
        ),
    ] = None  # fmt: skip
    credentials: Annotated[
        Path | None,
        Option(
            "victim", "who", "With --live: file with your account, readable only by you (docs/services.md)",
            parse=expanded, guest=False,
        ),
    ] = None  # fmt: skip
    browser: Annotated[
        Path | None,
        Option(
            "victim", "who",
            "Program of a Chromium-based browser, such as Chrome or Edge, instead of Debian's Chromium "
            "(docs/drivers.md)",
            parse=existing("program", "a program such as /usr/bin/google-chrome", program=True), guest=False,
        ),
    ] = None  # fmt: skip
    profile: Annotated[
        Path | None,
        Option(
            "victim", "who",
            "With --live: browser profile with your logins; the run uses a copy and never writes to it",
            parse=resolved, guest=False,
        ),
    ] = None  # fmt: skip
    buffer_s: Annotated[
        float,
        Option("victim", "what", "Seconds of video that the stand-in's player buffers", "12", "buffer",
               seconds_within(2, 120)),
    ]  # fmt: skip
    player: Annotated[
        str | None,
        Option(
            "victim", "what",
            "Player of the stand-in's film instead of the service's own (docs/services.md); all: a map with every "
            f"player: {', '.join(PLAYERS)}",
            choices=PLAYERS,
        ),
        Field(exclude_if=lambda player: player is None),  # as in the records of earlier versions
    ] = None  # fmt: skip
    target_latency_s: Annotated[
        float | None,
        Option(
            "victim", "what",
            "Television: broadcast with low latency, in chunks (LL-DASH, LL-HLS); seconds that --player aims to be "
            "behind",
            name="target-latency", parse=seconds_within(1, 10), word="{:g}".format,
        ),
        Field(exclude_if=lambda seconds: seconds is None),  # as in the records of earlier versions
    ] = None  # fmt: skip
    sabr_policy: Annotated[
        Literal["buffer", "throughput", "hybrid"],
        Option(
            "victim", "what",
            "SABR stand-in: how its server chooses the rendition: by the film that the client has ahead, by the "
            "throughput that it reports, or by both (docs/services.md)",
            "hybrid", choices=SABR_POLICIES,
        ),
        Field(exclude_if=lambda policy: policy == "hybrid"),  # as in the records of earlier versions
    ] = "hybrid"  # fmt: skip
    max_quality: Annotated[
        int | None,
        Option(
            "victim", "what",
            "YouTube's stand-in: highest rendition offered (default: 720p, the size of its window)",
            parse=lambda text: int(text.removesuffix("p")), word="{}p".format,
            choices=tuple(f"{rung.height}p" for rung in LADDER),
        ),
    ] = None  # fmt: skip
    clip: Annotated[
        Path | None,
        Option(
            "victim", "content",
            "Custom film for the stand-in: its first 5 minutes play in a loop, with the strip added",
            parse=existing("file", "a film that ffmpeg can read"), guest=False,
        ),
    ] = None  # fmt: skip
    ladder: Annotated[
        tuple[tuple[int, int], ...],
        Option("victim", "what", "Renditions of the stand-in: 240p:300k,480p:1mbit,720p:2.5mbit", parse=parse_ladder,
               word=rungs_text),
    ] = ()  # fmt: skip
    """Lines and bit/s of every rendition, lowest first; empty: the stand-in's default."""
    segment_s: Annotated[
        float,
        Option(
            "victim", "what", "Length of the segments of the stand-in's film or broadcast", "2s", "segment",
            lambda text: parse_time(text) / 1e6, lambda seconds: format_time(round(seconds * 1e6)), choices=SEGMENTS,
        ),
        Field(exclude_if=lambda seconds: seconds == 2),  # as in the records of earlier versions
    ] = 2.0  # fmt: skip
    origin_cc: Annotated[
        str,
        Option(
            "victim", "what",
            "Congestion control of the victim's origin: of TCP, or of QUIC with --origin-protocol=h3 (bbr3, cubic, "
            "newreno, prague; docs/services.md)",
            "bbr", choices=("bbr", "bbr3", "cubic", "newreno", "prague", "reno"),
        ),
    ]  # fmt: skip
    origin_protocol: Annotated[
        Literal["h2", "h3"],
        Option("victim", "what", "HTTP version between browser and origin: h2 (TCP) or h3 (QUIC)", "h2",
               choices=("h2", "h3")),
    ]  # fmt: skip
    origin_server: Annotated[
        Literal["caddy", "noq"],
        Option(
            "victim", "what",
            "Program of the victim's origin: caddy, or noq, which serves HTTP/3 with the congestion control of "
            "--origin-cc (default: caddy; noq with both --origin-protocol=h3 and --origin-cc)",
            choices=("caddy", "noq"),
        ),
        Field(exclude_if=lambda server: server == "caddy"),  # as in the records of earlier versions
    ] = "caddy"  # fmt: skip
    origin_pacing: Annotated[
        Literal["none", "sammy"],
        Option(
            "victim", "what",
            "Film on demand with dash.js, and SABR stand-in: pacing of every answer by the origin: none, or sammy, 1.5 "
            "times the rate of the highest rendition with a full buffer to 3 times with an empty one",
            "none", choices=("none", "sammy"),
        ),
        Field(exclude_if=lambda pacing: pacing == "none"),  # as in the records of earlier versions
    ] = "none"  # fmt: skip
    call_bitrate_bps: Annotated[
        int | None,
        Option(
            "victim", "what",
            "Maximum video bitrate of a call, per direction (default: 2.5mbit; 1mbit in real time on a slow host)",
            name="call-bitrate", parse=rate_option, word="{}bit".format,
        ),
    ] = None  # fmt: skip
    call_cc: Annotated[
        Literal["gcc", "scream"],
        Option(
            "victim", "what",
            "Congestion control of a call: gcc, Chromium's default, or scream, an L4S call whose media is ECT(1) and "
            "answers CE marks (docs/calls.md)",
            "gcc", choices=("gcc", "scream"),
        ),
        Field(exclude_if=lambda control: control == "gcc"),  # as in the records of earlier versions
    ] = "gcc"  # fmt: skip
    call_ecn: Annotated[
        Literal["not-ect", "ect1"],
        Option(
            "victim", "what",
            "ECN codepoint of a GCC call's packets: not-ect, or ect1, which makes the call an unresponsive flow in the "
            "L queue, because GCC cannot answer CE marks",
            "not-ect", choices=("not-ect", "ect1"),
        ),
    ]  # fmt: skip
    call_sound: Annotated[
        bool,
        Option(
            "victim", "what",
            "Sound of a call: off; on, tones whose delay and gaps are measured; or speech by espeak-ng, which "
            "`sojourn quality --speech` judges (docs/calls.md) (default: on in the sim lab, off in real time)",
            parse=lambda text: (text != "off", text == "speech"),
            word=lambda sound, speech: "speech" if speech else "on" if sound else "off",
            choices=("on", "off", "speech"), second="call_speech",
        ),
        Field(exclude_if=lambda sound: not sound),  # as in the records of earlier versions
    ] = False  # fmt: skip
    call_speech: Annotated[bool, Field(exclude_if=lambda speech: not speech)] = False
    parties: Annotated[
        int,
        Option("victim", "what", "Parties of a room, the victim included, 2 to 8", "4", parse=party_count),
        Field(exclude_if=lambda parties: parties == 4),  # as in the records of earlier versions
    ] = 4
    layers: Annotated[
        Literal["simulcast", "svc"],
        Option(
            "victim", "what",
            "Layers of every picture in a room: simulcast, three encodings by VP8, or svc, one by VP9 with three "
            "spatial layers",
            "simulcast", choices=("simulcast", "svc"),
        ),
        Field(exclude_if=lambda layers: layers == "simulcast"),  # as in the records of earlier versions
    ] = "simulcast"  # fmt: skip
    game_dscp: Annotated[
        int,
        Option(
            "victim", "what",
            "DSCP of a game's packets in both directions: 45 is NQB, which `dualpi2 nqb` sends to its L queue "
            "(docs/game.md)",
            "0", parse=dscp,
        ),
        Field(exclude_if=lambda codepoint: codepoint == 0),  # as in the records of earlier versions
    ] = 0  # fmt: skip
    driver: Annotated[
        str,
        Option("recording", "how", "Library that drives the browser", "playwright", choices=DRIVERS),
    ]
    recorder: Annotated[
        str,
        Option(
            "recording", "how",
            "Program that records the screen; none: a screening run, whose picture is the player's log of frames, for "
            "60 % of the processor time (stand-in videos, profiles and web pages in sim; docs/measurement.md)",
            "ffmpeg", choices=(*RECORDERS, SCREENING),
        ),
    ]  # fmt: skip
    lab: str
    asked_lab: Annotated[
        str,
        Option(
            "lab", "who",
            "sim (default: simulated time), virtual (real time on this machine), apu (a router over ssh), black-box "
            "(any device, between two captures)",
            name="lab", choices=LABS, guest=False,
        ),
    ] = ""  # fmt: skip
    """The lab as named by the user, empty if none was."""
    lab_file: Annotated[
        Path,
        Option("lab", "who", "With --lab=apu or --lab=black-box: file that describes the lab", "lab.toml",
               parse=expanded, guest=False),
    ]  # fmt: skip

    @property
    def own_folder(self) -> bool:
        """Whether `url` is a file on this machine rather than an address."""
        return bool(self.url) and "://" not in self.url

    @property
    def screening(self) -> bool:
        """Whether no screen is recorded: the player's log of presented frames is the picture."""
        return self.recorder == SCREENING

    @property
    def elsewhere(self) -> bool:
        """Whether the media comes from outside the lab: from the real service, or from an address."""
        return self.live or "://" in self.url

    @property
    def far_end_problem(self) -> str | None:
        """Why the lab has no host for the far end of a live call; None if it has one. Raises LabFileError."""
        if self.lab == "virtual":
            return None
        server = read_lab_file(self.lab_file).server
        if server.netns and not server.ssh:
            return None
        return (
            f"--lab-file: {self.lab_file}: server: the far end of a live call is a browser on this machine in a "
            "network namespace behind the router; give netns, not ssh (docs/calls.md)"
        )

    @property
    def seconds(self) -> float:
        """Total length of all phases."""
        raise NotImplementedError

    @property
    def longest_s(self) -> float:
        """The same if every phase lasts as long as it may."""
        raise NotImplementedError

    @property
    def page_seed(self) -> int:
        """The seed of what a service draws."""
        raise NotImplementedError
