# SPDX-License-Identifier: Apache-2.0
"""The evidence of a run, assembled from its raw files for scores and gates. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import polars as pl

from sojourn.scoring import game, responsiveness
from sojourn.scoring.baseline import solo
from sojourn.scoring.call_marks import marks_log
from sojourn.scoring.contenders import Contending, contenders
from sojourn.scoring.evidence import FAR, RawFiles, RecordedCapture, Setting, SideCapture, limits_of
from sojourn.scoring.live_latency import latency_log
from sojourn.scoring.metrics import Observations
from sojourn.scoring.packets import latency
from sojourn.scoring.page_loads import compared, page_loads
from sojourn.scoring.picture.shown import Picture, picture
from sojourn.scoring.picture.tiles import CLIENT, segments, tiles, together
from sojourn.scoring.schema import records
from sojourn.scoring.schema.scores import Jitter, PageLoad
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.sound.ear import SOUND, Sound, ear, tapped
from sojourn.scoring.sound.neteq import neteq_log
from sojourn.traffic.probes import PROBES, probe_of
from sojourn.traffic.rpm_programs import PROBES_FILE


@dataclass(frozen=True)
class RecordedProbe:
    """A probe through the queue: the prefix of its metrics' names, and its packets, None if not recorded.

    `port` is that of its echo server, None in runs of scores before 2.2, which have one probe.
    """

    name: str
    prefix: str
    codepoint: str
    port: int | None
    sent: pl.DataFrame | None


class RunEvidence:
    """A run's raw files as tables and records, read on first use."""

    def __init__(self, folder: Path) -> None:
        """Raises RecordError as `sojourn.scoring.score.score_run` does."""
        self.files, self.setting = RawFiles(folder), Setting.read(folder)
        self.limits = limits_of(self.files, self.setting.real_time)

    @cached_property
    def picture(self) -> Picture:
        """The content of the victim's screen."""
        if self.setting.room:
            return together([*self.tiles.values()])
        other = self.files.of_other_end if self.setting.call else None
        return picture(self.files, other, self.setting)

    @cached_property
    def tiles(self) -> dict[int, Picture]:
        """The picture of every party on the screen of a room's client; none for any other victim."""
        return tiles(self.files, self.setting) if self.setting.room else {}

    @cached_property
    def far_picture(self) -> Picture | None:
        """The content of the screen at a call's other end; in a room, the picture of the client there."""
        if not self.setting.call:
            return None
        there = self.files.of_other_end
        seen = picture(there, self.files, self.setting)
        if self.setting.room and seen.segments is not None:
            seen.segments = segments(there.lines("player.jsonl", records.PLAYER), CLIENT)
        return seen

    @cached_property
    def marks(self) -> dict[str, pl.DataFrame | None]:
        """The ECN counters of both ends of a SCReAM call, by their sides of the router; empty for any other victim."""
        if not self.setting.scream:
            return {}
        ends = {"client": self.files, "server": self.files.of_other_end}
        return {side: marks_log(files.lines("player.jsonl", records.PLAYER)) for side, files in ends.items()}

    @cached_property
    def sound(self) -> Sound | None:
        """What the client of a call heard; None without sound."""
        return self._heard(self.files, self.files.of_other_end)

    @cached_property
    def far_sound(self) -> Sound | None:
        """What the other end of a call heard; None without sound."""
        return self._heard(self.files.of_other_end, self.files)

    @property
    def tones(self) -> Sound | None:
        """What the client heard of the speaker's tones; None without sound, and for speech, which names no places."""
        return None if self.setting.speech else self.sound

    @property
    def far_tones(self) -> Sound | None:
        """What the other end heard of the speaker's tones; None as in `tones`."""
        return None if self.setting.speech else self.far_sound

    def _heard(self, listener: RawFiles, speaker: RawFiles) -> Sound | None:
        file = listener.folder / SOUND
        if not self.setting.sound or not file.exists():
            return None
        lines, other = (files.lines("player.jsonl", records.PLAYER) for files in (listener, speaker))
        speech = self.setting.speech
        return listener.whole(file, lambda: tapped(lines, file) if speech else ear(lines, other, file))

    @cached_property
    def neteq(self) -> dict[str, pl.DataFrame | None]:
        """The counters of both ends' jitter buffers for sound, by their sides of the router; empty without sound."""
        if not self.setting.sound:
            return {}
        ends = {"client": self.files, "server": self.files.of_other_end}
        return {side: neteq_log(files.lines("player.jsonl", records.PLAYER)) for side, files in ends.items()}

    @property
    def sounds(self) -> list[tuple[str, Sound | None]]:
        """What both ends of a call with sound heard, with the prefix of the other end's gate names."""
        return [("", self.sound), (f"{FAR} end's ", self.far_sound)] if self.setting.sound else []

    @property
    def pictures(self) -> list[tuple[str, Picture]]:
        """The pictures of both ends, with the prefix of the other end's gate names."""
        far = [(f"{FAR} end's ", self.far_picture)] if self.far_picture else []
        return [("", self.picture), *far]

    @cached_property
    def captures(self) -> Mapping[str, RecordedCapture | None]:
        """See `RawFiles.captures`."""
        return self.files.captures(self.setting)

    @property
    def behind(self) -> SideCapture | None:
        """The packets of the client side, after the downlink bottleneck; None if incomplete."""
        return self._whole("client")

    @property
    def before(self) -> SideCapture | None:
        """The packets of the server side, before the downlink bottleneck; None if incomplete."""
        return self._whole("server")

    def _whole(self, side: str) -> SideCapture | None:
        capture = self._captures_that_hold.get(side)
        return capture.packets if capture else None

    @cached_property
    def _captures_that_hold(self) -> dict[str, RecordedCapture]:
        captures = {side: it for side, it in self.captures.items() if it}
        return {side: it for side, it in captures.items() if it.whole(self.setting.span, self.limits)}

    @cached_property
    def options(self) -> dict[str, Any]:
        """The requested options (options.json); empty if not kept."""
        return self.files.optional("options.json", records.OPTIONS) or {}

    @cached_property
    def bulk(self) -> Sequence[Mapping[str, Any]]:
        """The flows of bulk.json."""
        return (self.files.optional("bulk.json", records.BULK) or {}).get("flows", [])  # type: ignore[no-any-return]

    @cached_property
    def sockets(self) -> Sequence[Mapping[str, Any]]:
        """The samples of contenders' sockets in both directions, in order of time."""
        lines = chain.from_iterable(self.socket_files.values())
        return sorted((line for line in lines if line.get("flow")), key=lambda line: line["t"])

    @cached_property
    def socket_files(self) -> dict[str, list[dict[str, Any]]]:
        """The samples of sockets by direction, as written: of a file's name, its lines."""
        return {name: self.files.lines(name, records.SOCKETS) for name in ("ss.jsonl", "ss-up.jsonl")}

    @cached_property
    def queues(self) -> list[dict[str, Any]]:
        """The samples of the router's queues; none for a black box."""
        return [] if self.setting.box else self.files.lines("qdisc.jsonl", records.QDISC)

    @cached_property
    def router_clock(self) -> list[dict[str, Any]]:
        """The samples of a physical router's clock; none for any other."""
        return self.files.lines("router-clock.jsonl", records.ROUTER_CLOCK)

    def queues_of(self, side: Literal["lan", "wan"]) -> list[dict[str, Any]]:
        """The samples of the queue towards the receivers or the senders."""
        return [sample for sample in self.queues if sample["dev"] == self.setting.device(side)]

    @cached_property
    def host_watch(self) -> list[dict[str, Any]]:
        """The samples of the host of a real-time lab."""
        return self.files.lines("host.jsonl", records.HOST) if self.setting.real_time else []

    @property
    def host_in_timeline(self) -> list[dict[str, Any]]:
        """The host samples that cover a second of the timeline."""
        start, end = self.setting.span
        return [sample for sample in self.host_watch if start <= sample["t"] <= end + 1]

    @cached_property
    def second_player(self) -> list[dict[str, Any]]:
        """The lines of a second video's player."""
        return self.files.of_second_video.lines("player.jsonl", records.PLAYER)

    @cached_property
    def probes(self) -> list[RecordedProbe]:
        """The probes through the queue."""
        ports = self.setting.lab.get("ports", {})
        if PROBES[1].key not in ports:
            # Runs of scores before 2.2 have one probe, with the requested codepoint.
            one, sent = probe_of(self.options), self.files.probes(f"{PROBES[0].file}.json")
            return [RecordedProbe("probe", one.prefix, one.codepoint, None, sent)]
        return [
            RecordedProbe(f"{probe.name} probe", probe.prefix, probe.codepoint, ports.get(probe.key, 0),
                          self.files.probes(f"{probe.file}.json"))
            for probe in PROBES
        ]  # fmt: skip

    @cached_property
    def connections(self) -> pl.DataFrame | None:
        """The foreign probes of --rpm, see `sojourn.scoring.responsiveness.frame`; None without."""
        return responsiveness.frame(self.files.lines(PROBES_FILE, records.RPM)) if self.options.get("rpm") else None

    @cached_property
    def game(self) -> game.Game | None:
        """The packets of a game that is the victim; None for any other victim."""
        if not self.setting.game:
            return None
        client, server = (self.files.lines(name, records.GAME) for name in (game.CLIENT, game.SERVER))
        return game.game_of([(client, server)], self.setting.server_ahead_s)

    @cached_property
    def unshaped(self) -> pl.DataFrame | None:
        """The unshaped probe; a black box has none."""
        return None if self.setting.box else self.files.probes("irtt-unshaped.json")

    @cached_property
    def calm(self) -> pl.DataFrame | None:
        """The unshaped probe during the timeline, without those that were under way when it was stopped."""
        if self.unshaped is None:
            return None
        answered = latency.answerable(self.unshaped, 2 * (self.setting.lab["rtt_ms"] or 0) / 1e3)
        return latency.within(answered, [self.setting.span])

    @cached_property
    def jitter(self) -> Jitter | None:
        """The delay that the lab itself adds to the path."""
        if self.calm is None:
            return None
        came = self.calm.drop_nulls("rtt_ms")  # loss has its own gate
        percentiles = [latency.percentile(came, 50), latency.percentile(came, 99), latency.largest(came)]
        p50, p99, most = (None if rtt is None else rtt - self.setting.lab["rtt_ms"] for rtt in percentiles)
        return None if p50 is None or p99 is None or most is None else Jitter(p50=p50, p99=p99, max=most)

    @cached_property
    def _contending(self) -> tuple[list[Contending], dict[str, Window]]:
        return contenders(self.setting, self.bulk, self.sockets, self.behind, self.before)

    @property
    def contenders(self) -> list[Contending]:
        """The contenders of all phases."""
        return self._contending[0]

    @property
    def measured(self) -> dict[str, Window]:
        """The measured window of every phase, by its name: all of its load is active."""
        return self._contending[1]

    @cached_property
    def evidence(self) -> Observations:
        """The observations from which the victim's metrics are computed."""
        return Observations(
            self.picture,
            self.setting.clip_fps,
            self.behind.victim if self.behind else None,
            self.behind.contender if self.behind else None,
            {probe.prefix: probe.sent for probe in self.probes if probe.sent is not None},
            self.before.upload if self.before and self.setting.uploads else None,
            self.marks.get("client"),
            self.tones,
            self.neteq.get("client"),
            latency_log(self.files.lines("player.jsonl", records.PLAYER)),
            self.connections,
            self.loads,
            compared(self.loads or (), [phase.name for phase in self.setting.phases if phase.contender]),
            self.setting.span[0],
            self.game,
        )

    @cached_property
    def loads(self) -> list[PageLoad] | None:
        """Every load of a web page; None for any other victim."""
        if not self.setting.web:
            return None
        return page_loads(self.files.lines("player.jsonl", records.PLAYER), self.measured, self.setting.span[0])

    @cached_property
    def _alone(self) -> tuple[list[Window], list[Window]]:
        return solo(self.setting, self.picture.segments)

    @property
    def first_solo(self) -> list[Window]:
        """The first phase without a contender; empty if there is none."""
        return self._alone[0]

    @property
    def solo(self) -> list[Window]:
        """The windows of the baseline."""
        return self._alone[1]
