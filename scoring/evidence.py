# SPDX-License-Identifier: Apache-2.0
"""The raw files of a run as tables or records; damaged files are noted and count as not recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import polars as pl
from pydantic import TypeAdapter

from sojourn.scoring.coverage import Coverage
from sojourn.scoring.game import CLIENT, SERVER
from sojourn.scoring.packets import latency, pcapng, per_flow
from sojourn.scoring.picture.recording import RecordingError
from sojourn.scoring.schema import records
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.harm import Victim
from sojourn.scoring.validity import SIMULATED, Limits
from sojourn.traffic.load import CALL, GAME, VIDEO, parse_load
from sojourn.traffic.probes import PROBES

FAR, SECOND = "far", "second"
"""The folders of a call's other end, and of a second video that competes."""
_FOLDER = re.compile(rf"{FAR}(-\d)?|{SECOND}")
Read = TypeVar("Read")


@dataclass(frozen=True)
class RecordedPhase:
    """A phase of timeline.json; times in Unix s."""

    name: str
    contender: str | None
    start: float
    end: float


class SideCapture(NamedTuple):
    """Largest IP packet (bytes); all packets, those of victim and contender (down), of a call (up) and of uploads."""

    largest: int
    all: pl.DataFrame
    victim: pl.DataFrame
    contender: pl.DataFrame
    back: pl.DataFrame
    upload: pl.DataFrame


class Damage(NamedTuple):
    """An unreadable file, by its name in the run, and the reason."""

    file: str
    why: str


class RecordedCapture(NamedTuple):
    """The packets of one side, the counts to and from its near end, and the packets that the capture lost."""

    packets: SideCapture
    down: int
    up: int
    dropped: int | None

    def whole(self, span: Window, limits: Limits) -> bool:
        """Whether it covers the whole timeline in both directions: half of the packets would halve the figures."""
        coverage = Coverage.of(self.packets.all["t_ns"].to_numpy() / 1e9, span)
        return coverage is not None and coverage.complete(limits) and self.down > 0 and self.up > 0


def party_folder(party: int) -> str:
    """Return the folder of a room's party in the run; empty for the client's, which is the run's own."""
    return {1: "", 2: FAR}.get(party, f"{FAR}-{party}")


class RawFiles:
    """The folder of a run, or of a call's other end or second video in it; it collects the `damaged` files."""

    def __init__(self, folder: Path, damaged: list[Damage] | None = None) -> None:
        self.folder = folder
        self.damaged: list[Damage] = [] if damaged is None else damaged

    @property
    def of_second_video(self) -> RawFiles:
        """The files of a second video; damage is noted in the run."""
        return RawFiles(self.folder / SECOND, self.damaged)

    @property
    def of_other_end(self) -> RawFiles:
        """The files of a call's other end; damage is noted in the run."""
        return RawFiles(self.folder / FAR, self.damaged)

    def of_party(self, party: int) -> RawFiles:
        """The files of a party of a room: 1 is the client, 2 the other end whose screen is recorded too."""
        return RawFiles(self.folder / party_folder(party), self.damaged)

    def whole(self, file: Path, read: Callable[[], Read]) -> Read | None:
        """Return what `read` returns for `file`; a damaged file is noted and counts as not recorded."""
        try:
            return read()
        except (records.RecordError, RecordingError, pcapng.CaptureError, latency.ProbeError) as error:
            name = f"{file.parent.name}/{file.name}" if _FOLDER.fullmatch(file.parent.name) else file.name
            # The text must not depend on the path.
            if (damage := Damage(name, str(error).replace(str(file), name))) not in self.damaged:
                self.damaged.append(damage)
            return None

    def optional(self, name: str, shape: TypeAdapter[Any]) -> dict[str, Any] | None:
        """Return the JSON object of an optional file."""
        file = self.folder / name
        return self.whole(file, lambda: records.read(file, shape)) if file.exists() else None

    def lines(self, name: str, shape: TypeAdapter[Any]) -> list[dict[str, Any]]:
        """Return the objects of a .jsonl file; empty if it is missing."""
        file = self.folder / name
        return (self.whole(file, lambda: records.read_lines(file, shape)) or []) if file.exists() else []

    def probes(self, name: str) -> pl.DataFrame | None:
        """Return the probes of an irtt file, compressed or not; None if there is none."""
        file = first_of(self.folder, f"{name}.gz", name)
        return None if file is None else self.whole(file, lambda: latency.read_irtt(file))

    def captures(self, setting: Setting) -> dict[str, RecordedCapture | None]:
        """The captures of both sides; None for one that was not recorded, no entry for a damaged one."""
        captures: dict[str, RecordedCapture | None] = {}
        for side in ("client", "server"):
            file = capture_file(self.folder, side)
            capture = file and self.whole(file, partial(read_capture, file, side, setting))
            if capture:
                near = [per_flow.address(setting.lab["addresses"][name]) for name in ("client", "receiver")]
                down, up = (int(capture.packets[end].is_in(near).sum()) for end in ("dst", "src"))
                captures[side] = RecordedCapture(_sorted_out(capture.packets, setting), down, up, capture.dropped)
            elif file is None:
                captures[side] = None
        return captures


@dataclass(frozen=True)
class Setting:
    """The contents of a run's timeline.json and lab.json."""

    phases: tuple[RecordedPhase, ...]
    lab: Mapping[str, Any]
    rates: tuple[Mapping[str, Any], ...] = ()
    """The executed steps of the bottleneck's rates."""

    @classmethod
    def read(cls, run: Path) -> Setting:
        """Raises RecordError if either file is missing or damaged."""
        timeline = records.read(run / "timeline.json", records.TIMELINE)
        lab = records.read(run / "lab.json", records.LAB)
        return cls(
            tuple(RecordedPhase(p["name"], p["contender"], p["start"], p["end"]) for p in timeline["phases"]),
            lab,
            tuple(timeline.get("rates", ())),
        )

    @property
    def span(self) -> Window:
        """From the start of the first phase to the end of the last one, Unix s."""
        return self.phases[0].start, self.phases[-1].end

    def device(self, side: Literal["lan", "wan"]) -> str:
        """Return the router's interface on the receivers' or the senders' side."""
        return str(self.lab.get("interfaces", {}).get(side, side))

    @property
    def real_time(self) -> bool:
        """Whether the lab's clock was the host's."""
        return bool(self.lab.get("real_time", True))

    @property
    def server_ahead_s(self) -> float:
        """How far the server's clock was ahead of this host's at the start, s; 0 if they may have agreed."""
        ahead, error = (self.lab.get(name, {}).get("server", 0.0) for name in ("clock_offset_s", "clock_error_s"))
        return float(ahead) if self.real_time and abs(ahead) > error else 0.0

    @property
    def processor_share(self) -> float | None:
        """The share of the processor time that a run in real time could use and got; None if unknown."""
        return self.lab.get("processor_share") if self.real_time else None

    @property
    def box(self) -> bool:
        """Whether the bottleneck was a black box."""
        return "box" in self.lab

    @property
    def clip(self) -> Mapping[str, Any] | None:
        """The film of a stand-in or of a call's cameras; unknown for a live service."""
        return self.lab.get("clip")

    @property
    def clip_fps(self) -> float:
        """Frames per second of the film."""
        return float(self.clip.get("fps", 30)) if self.clip else 30.0

    @property
    def screening(self) -> bool:
        """Whether no screen was recorded: the picture is the player's log of presented frames."""
        return bool(self.lab.get("screening"))

    @property
    def frame_log(self) -> bool:
        """Whether the page logged the frames that its player presented."""
        return self.screening or bool(self.lab.get("frame_log"))

    @property
    def live(self) -> bool:
        """Whether the service was real; a live call's cameras show a film too."""
        return bool(self.lab.get("live", self.clip is None))

    @property
    def elsewhere(self) -> bool:
        """Whether the victim's data came from an origin other than Sojourn's."""
        return self.live and "own_folder" not in self.lab

    @property
    def uploads(self) -> bool:
        """Whether any contender sends upwards; a call and a game do."""
        parts = (part for phase in self.phases if phase.contender for part in parse_load(phase.contender))
        return any(part.up or part.contender in (CALL, GAME) for part in parts)

    @property
    def call(self) -> Mapping[str, Any] | None:
        """The two ends of a call, if the service is one."""
        return self.lab.get("call")

    @property
    def room(self) -> Mapping[str, Any] | None:
        """The tiles and layers of a room, a call of several parties, if the service is one."""
        return self.lab.get("room")

    @property
    def web(self) -> Mapping[str, Any] | None:
        """The pages that a user visits, if the service is one that loads pages."""
        return self.lab.get("web")

    @property
    def game(self) -> Mapping[str, Any] | None:
        """The tick rate and DSCP of a game, if the service is one: it has no picture."""
        return self.lab.get("game")

    @property
    def kind(self) -> Victim:
        """The kind of the victim, which decides its primary metric."""
        return "call" if self.call else "game" if self.game else "web" if self.web else "video"

    @property
    def parties(self) -> list[int]:
        """The parties that the client of a room sees; empty for any other victim."""
        return [tile["party"] for tile in self.room["tiles"]] if self.room else []

    @property
    def sound(self) -> bool:
        """Whether it is a call with sound."""
        return self.call is not None and bool(self.call.get("sound"))

    @property
    def speech(self) -> str | None:
        """The digest of the speech of a call whose sound is no numbered tones; None for any other."""
        return self.call.get("speech") if self.call is not None and self.sound else None

    @property
    def scream(self) -> bool:
        """Whether it is a call by SCReAM, whose media is ECT(1)."""
        return self.call is not None and self.call.get("cc") == "scream"


def needed(setting: Setting) -> list[tuple[str, ...]]:
    """Return the files that a valid run with this setting has: for every file, its possible names."""
    ends = ("", f"{FAR}/") if setting.call else ("",)
    of_screen = () if setting.screening else ("screen.json", "screen.mp4")
    parts = [part for phase in setting.phases if phase.contender for part in parse_load(phase.contender)]
    wanted = {
        "timeline.json": True,
        "lab.json": True,
        **{f"{end}{name}": not setting.game for end in ends for name in (*of_screen, "player.jsonl")},
        **{name: setting.game is not None for name in (CLIENT, SERVER)},
        **{f"{party_folder(party)}/player.jsonl": True for party in setting.parties},
        **{f"{end}sound.flac": setting.sound for end in ends},
        "bulk.json": bool(parts),
        "ss.jsonl": any(part.bulk and not part.up for part in parts),
        "ss-up.jsonl": any(part.bulk and part.up for part in parts),
        f"{SECOND}/player.jsonl": any(part.contender == VIDEO for part in parts),
        "qdisc.jsonl": not setting.box,
        "host.jsonl": setting.real_time,
    }
    ports = setting.lab.get("ports", {})
    # Runs of scores before 2.2 have only the first probe.
    probes = [probe.file for number, probe in enumerate(PROBES) if not number or probe.key in ports]
    packed = {"client.pcapng": ".zst", "server.pcapng": ".zst"}
    packed |= dict.fromkeys((f"{name}.json" for name in (*probes, *([] if setting.box else ["irtt-unshaped"]))), ".gz")
    return [(name,) for name, need in wanted.items() if need] + [(n + end, n) for n, end in packed.items()]


def first_of(folder: Path, *names: str) -> Path | None:
    """Return the first of these files that exists in the folder; None if none does."""
    return next((file for name in names if (file := folder / name).exists()), None)


def capture_file(folder: Path, side: str) -> Path | None:
    """Return the capture file of one side, compressed or not; None if there is none."""
    return first_of(folder, f"{side}.pcapng.zst", f"{side}.pcapng")


def read_capture(file: Path, side: str, setting: Setting) -> pcapng.Capture:
    """Return the capture of one side, by the clock of the run. Raises CaptureError."""
    capture = pcapng.read(file)
    ahead_ns = round(setting.lab.get("capture_offset_s", {}).get(side, 0) * 1e9)  # by the clock of the capture
    return replace(capture, packets=capture.packets.with_columns(pl.col("t_ns") - ahead_ns))


def limits_of(files: RawFiles, real_time: bool) -> Limits:
    """Return the limits that applied when the run was recorded."""
    options = files.optional("options.json", records.OPTIONS) or {}
    usual = Limits() if real_time else SIMULATED
    gate_ms = options.get("jitter_gate_ms")
    return usual if gate_ms is None else usual.model_copy(update={"jitter_ms": gate_ms})


def _sorted_out(table: pl.DataFrame, setting: Setting) -> SideCapture:
    lab, addresses, call = setting.lab, setting.lab["addresses"], setting.call
    # A live service's address is rarely known: take everything from its port except contenders.
    strange = setting.live and "own_folder" not in lab
    far_end = call["client"]["address"] if strange and call else None
    down, up = per_flow.contending(addresses)
    victim = per_flow.select(
        table,
        src=far_end if strange else addresses["server"],
        sport=lab["ports"]["origin"],
        dst=addresses["client"],
    )
    if strange:
        victim = victim.filter(~down & ~per_flow.is_at("src", addresses["sender"]))
    contender = table.filter(down)
    largest = int(table["ip_bytes"].max() or 0)  # type: ignore[arg-type]
    back = per_flow.select(
        table,
        src=addresses["client"],
        sport=call["client_port"] if call else 0,
        dst=far_end if strange else addresses["server"],
    )
    # The acknowledgements of downloads go in the same direction.
    upload = table.filter(up) if setting.uploads else table[:0]
    return SideCapture(largest, table, *(per_flow.with_advance(part) for part in (victim, contender, back, upload)))
