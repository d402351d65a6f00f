# SPDX-License-Identifier: Apache-2.0
"""A cell's call in a real-time lab: two connected browsers that show each other the full picture."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.apps.base import ServiceError
from sojourn.apps.call import BrowserCall as Browsers
from sojourn.apps.standins.call.camera import FPS, FRAMES
from sojourn.apps.two_party import FAR
from sojourn.hardware.machine.files import log_file
from sojourn.harness.lab.contract import Lab
from sojourn.harness.lab.instruments import Instruments
from sojourn.scoring.call_marks import marks_log, marks_within
from sojourn.scoring.gates.base import gate
from sojourn.scoring.gates.calls import call_feedback, media
from sojourn.scoring.packets import per_flow
from sojourn.scoring.packets.pcapng import CE
from sojourn.scoring.packets.sojourn import crossings
from sojourn.scoring.picture.frames import UNREAD
from sojourn.scoring.picture.glass_to_glass import camera_log, frame_delays, shown_frames
from sojourn.scoring.schema.columns import ESTIMATES, NETEQ, TALKS, TONES
from sojourn.scoring.sound.ear import SOUND, TONE_S, Sound, ear
from sojourn.scoring.sound.neteq import COLUMNS, neteq_log
from sojourn.scoring.validity import Gate
from sojourn.traffic import spec
from sojourn.traffic.irtt import TOS

_SETTLED_S, _POLL_S = 60.0, 0.25


def browsers(call: spec.Call) -> Browsers:
    """Return the two ends of such a call; renders their cameras' film if it is missing. Raises ServiceError."""
    assert call.ecn != "nqb", "no real-time lab has it, see missing_capability"
    made = Browsers(
        bitrate_bps=call.bitrate_bps,
        cc=call.cc,
        ecn=call.ecn,
        trial=call.trial,
        sound=call.sound,
        pictures=True,
        recorder=None,
    )
    made.prepare()
    return made


def call_shown(parts: Instruments, requested: spec.Call, folder: Path) -> Browsers:
    """Return a call between the client and the server once both ends show its size; its files go to `folder`.

    Raises ServiceError when there is no call, or none of that size within a minute; ProcessError without a screen.
    """
    call = browsers(requested)
    parts.play(call, parts.screen(log_file(folder, "xvfb")), folder)
    deadline = time.monotonic() + _SETTLED_S
    while not call.settled:
        parts.check()
        if time.monotonic() > deadline:
            raise ServiceError(f"call: no full picture after {_SETTLED_S:g} s", code="no-picture")
        time.sleep(_POLL_S)
    return call


def of_call(call: Browsers, lab: Lab, down: pl.DataFrame, up: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the packets of a call that go down, of the capture `down`, and those that go up, of the capture `up`."""
    ends = call.facts["call"]
    return (
        per_flow.select(down, src=lab.addresses.server, sport=ends["server_port"], dport=ends["client_port"]),
        per_flow.select(up, src=lab.addresses.client, sport=ends["client_port"], dport=ends["server_port"]),
    )


def talks(ways: tuple[pl.DataFrame, pl.DataFrame], t0: float, seconds: float) -> pl.DataFrame:
    """Return the rows of TALKS, without delays, for packets that arrived within `seconds` s from `t0` (Unix s) on."""
    parts = [
        pl.DataFrame(
            {
                "t_s": (way["t_ns"] - round(t0 * 1e9)) / 1e9,
                "talk": pl.repeat(n, way.height, eager=True, dtype=pl.Int64),
                "bytes": way["payload"].cast(pl.Int64),
                "ce": (way["ecn"] == CE).cast(pl.Int64),
            },
            schema={name: kind for name, kind in TALKS.items() if name != "delay_us"},
        )
        for n, way in enumerate(ways)
    ]
    return pl.concat(parts).filter(pl.col("t_s").is_between(0, seconds)).sort("t_s", "talk")


def crossed(
    before: tuple[pl.DataFrame, pl.DataFrame],
    behind: tuple[pl.DataFrame, pl.DataFrame],
    paths_ms: tuple[float, float],
    t0: float,
    seconds: float,
) -> pl.DataFrame:
    """Return the rows of CROSSINGS of a call's packets down and up, captured before and behind the bottleneck.

    `paths_ms` are the configured delays between the captures; the packets are of `seconds` s from `t0` (Unix s) on.
    """
    parts = [
        crossings(sent, came, path_ms).select(
            (pl.col("t") - t0).round(9).alias("t_s"),
            pl.lit(n, pl.Int64).alias("talk"),
            pl.col("payload").cast(pl.Int64).alias("bytes"),
            (pl.col("sojourn_ms") * 1e3).round(3).alias("queue_us"),
            pl.col("marked").cast(pl.Int64),
        )
        for n, (sent, came, path_ms) in enumerate(zip(before, behind, paths_ms, strict=True))
    ]
    return pl.concat(parts).filter(pl.col("t_s").is_between(0, seconds)).sort("t_s", "talk")


def pictures(logs: Mapping[str, list[Mapping[str, Any]]], t0: float, seconds: float) -> pl.DataFrame:
    """Return the rows of PICTURES of the frames that the cameras captured within `seconds` s from `t0` (Unix s) on.

    `logs` have the lines of both ends' player.jsonl, of the server's first, which sends down. The last frame that an
    end received is its picture until the end of the cell.
    """
    parts, ends = [], list(logs.values())
    for n, (sends, receives) in enumerate((ends, reversed(ends))):
        camera = camera_log(sends, FRAMES)
        entries = (entry for line in receives if line.get("event") == "delivered" for entry in line["detail"])
        came = [(at / 1e3, number) for number, _, at in entries] or [(t0, UNREAD)]
        if came[-1][0] < t0 + seconds:
            came.append((t0 + seconds, came[-1][1]))
        delivered = pl.DataFrame(came, {"t": pl.Float64, "frame": pl.Int64}, orient="row")
        delays = frame_delays(shown_frames(delivered, camera, FRAMES, FPS), camera, on_change=True)
        parts.append(
            delays.select(
                (pl.col("t") - t0).round(6).alias("t_s"),
                pl.lit(n, pl.Int64).alias("talk"),
                (pl.col("delay_ms") * 1e3).round(1).alias("delay_us"),
            )
        )
    return pl.concat(parts).filter(pl.col("t_s").is_between(0, seconds)).sort("t_s", "talk")


def seen_by_ends(evidence: Path) -> dict[str, list[Mapping[str, Any]]]:
    """Return what the pages of the two ends report every second, by the end: of the server, which sends down, first."""
    return {end: [line for line in lines if line.get("event") == "call"] for end, lines in logs_of(evidence).items()}


def logs_of(evidence: Path) -> dict[str, list[Mapping[str, Any]]]:
    """Return all lines of the two ends' player.jsonl, of the server, which sends down, first."""
    files = {"server": evidence / FAR / "player.jsonl", "client": evidence / "player.jsonl"}
    return {end: [json.loads(line) for line in file.read_text().splitlines()] for end, file in files.items()}


def heard(evidence: Path) -> list[Sound | None]:
    """Return what the two ends of a call with sound heard: the client, of what is sent down, first; None if nothing.

    Raises RecordingError.
    """
    told = logs_of(evidence)
    ways = ("client", "server", evidence), ("server", "client", evidence / FAR)
    return [
        ear(told[listener], told[speaker], folder / SOUND) if (folder / SOUND).exists() else None
        for listener, speaker, folder in ways
    ]


def estimates(ends: Mapping[str, list[Mapping[str, Any]]], t0: float, seconds: float) -> pl.DataFrame:
    """Return the rows of ESTIMATES of the two ends within `seconds` s from `t0` (Unix s) on."""
    rows = [
        (line["t"] - t0, n, line["detail"]["pair"].get("availableOutgoingBitrate"))
        for n, lines in enumerate(ends.values())
        for line in lines
    ]
    table = pl.DataFrame(rows, schema=ESTIMATES, orient="row", strict=False)
    return table.filter(pl.col("t_s").is_between(0, seconds)).sort("t_s", "talk")


def neteq(ends: Mapping[str, list[Mapping[str, Any]]], t0: float, seconds: float) -> pl.DataFrame:
    """Return the rows of NETEQ of the two ends within `seconds` s from `t0` (Unix s) on."""
    logs = {talk: neteq_log(ends[end]) for talk, end in enumerate(("client", "server"))}
    parts = [
        log.select(pl.col("t").alias("t_s") - t0, pl.lit(talk, pl.Int64).alias("talk"), **COLUMNS)
        for talk, log in logs.items()
        if log is not None
    ]
    table = pl.concat([pl.DataFrame(schema=NETEQ), *parts])
    return table.filter(pl.col("t_s").is_between(0, seconds)).sort("t_s", "talk")


def tones(heard: Sequence[Sound | None], t0: float, seconds: float) -> pl.DataFrame:
    """Return the rows of TONES, of what both ends heard within `seconds` s from `t0` (Unix s) on: down, up."""
    parts = []
    for talk, sound in enumerate(heard):
        if sound is None or sound.tones.is_empty():
            continue
        parts.append(
            sound.tones.join(_at_the_ear(sound), on="t", how="left").select(
                pl.col("t").alias("t_s") - t0,
                pl.lit(talk, pl.Int64).alias("talk"),
                "delay_ms",
                *(pl.col(name).fill_null(0).cast(pl.Float64) for name in ("gap_ms", "ear_ms")),
            )
        )
    table = pl.concat([pl.DataFrame(schema=TONES), *parts])
    return table.filter(pl.col("t_s").is_between(0, seconds)).sort("t_s", "talk")


def _at_the_ear(sound: Sound) -> pl.DataFrame:
    """Return the ms of the listener's time, and the gaps among them, by the tone that belongs there: t, gap_ms, ear_ms.

    A ms belongs to what was spoken earlier by the delay at that time, which is that of the tone heard last. The ms of
    the speaker's pauses belong to no tone.
    """
    begun = sound.tones["t"]
    heard = sound.tones.drop_nulls().with_columns(pl.col("t") + pl.col("delay_ms") / 1e3).sort("t")
    ear = sound.ear.drop_nulls("gap").sort("t").join_asof(heard, on="t")
    late_s = pl.col("delay_ms").fill_null(strategy="backward").fill_null(0) / 1e3
    spoken = (
        ear.select(pl.col("t") - late_s, "gap").filter(pl.col("t").is_between(begun[0], begun[-1] + TONE_S)).sort("t")
    )
    middles = sound.tones.select(begun="t", t=pl.col("t") + TONE_S / 2)
    by_tone = spoken.join_asof(middles, on="t", strategy="nearest").group_by(t="begun")
    return by_tone.agg(gap_ms=pl.col("gap").sum(), ear_ms=pl.len())


def proven(
    call: spec.Call,
    ways: tuple[pl.DataFrame, pl.DataFrame],
    ends: Mapping[str, list[Mapping[str, Any]]],
    t0: float,
    seconds: float,
) -> list[Gate]:
    """Return the gates of a call in the `seconds` s from `t0` (Unix s) on: codepoints, and a SCReAM call's feedback.

    Each direction has packets, all with the requested codepoint or CE; those of a SCReAM call's media are ECT(1).
    """
    scream = call.cc == "scream"
    codepoint = "ect1" if scream else call.ecn
    gates = []
    for name, way in zip(("down", "up"), ways, strict=True):
        # Chromium sends STUN and DTLS as Not-ECT, whatever it does with media.
        sent = media(way) if scream else way
        fields = sent.filter(pl.col("t_ns") >= round(t0 * 1e9))["ecn"].to_list()
        wrong = sum(field not in (TOS[codepoint], CE) for field in fields)
        measured = f"{wrong} of {len(fields)} packets otherwise"
        limit = "some packets, none otherwise"
        gates.append(gate("call-marked", f"call {name} {codepoint}", bool(fields) and not wrong, measured, limit))
    for end, lines in ends.items() if scream else ():
        log = marks_log(lines)
        received = None if log is None else marks_within(log, [(t0, t0 + seconds)])["ccfb_received"]
        gates.append(call_feedback(end, received))
    return gates
