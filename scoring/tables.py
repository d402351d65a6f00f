# SPDX-License-Identifier: Apache-2.0
"""The raw files of a run as tables for custom analysis; `TABLES` describes every table and column."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.bottleneck.qdiscs import marks, sce_marks
from sojourn.scoring.curves import crossings_down
from sojourn.scoring.evidence import FAR, Setting, capture_file, first_of, read_capture
from sojourn.scoring.game import CLIENT, SERVER, game_of
from sojourn.scoring.packets import latency, per_flow
from sojourn.scoring.packets.pcapng import CODEPOINTS
from sojourn.scoring.picture import frames, glass_to_glass, rendition
from sojourn.scoring.picture.judged import COLUMNS as JUDGED
from sojourn.scoring.picture.judged import QUALITY, read_judged
from sojourn.scoring.schema import records
from sojourn.scoring.schema.columns import ENDS, Columns, TableColumn, columns_of
from sojourn.scoring.sound.ear import SOUND, ear
from sojourn.scoring.sound.judged_speech import COLUMNS as JUDGED_SPEECH
from sojourn.scoring.sound.judged_speech import SPEECH, read_judged_speech
from sojourn.traffic.probes import PROBES
from sojourn.traffic.rpm_programs import PROBES_FILE

_ECN = "ECN codepoint: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE"
_UNSHAPED = "irtt-unshaped"
_OF_SOUND = SOUND, "player.jsonl"
_FAR_LOG = f"{FAR}/player.jsonl"
_SETTING = ("timeline.json", "lab.json")
_CAPTURES = ("server.pcapng.zst", "server.pcapng", "client.pcapng.zst", "client.pcapng")


@dataclass(frozen=True)
class Table:
    """A table of a run: the meaning of a row, its columns, and how to read it."""

    row: str
    columns: Columns
    files: tuple[str, ...]
    """The files it can be read from; any of them may be missing."""
    read: Callable[[Path], pl.DataFrame | None]

    def described(self, name: str) -> str:
        """Return its description as a Markdown section."""
        lines = [f"| `{name}` | {kind} | {self.columns.texts[name]} |" for name, kind in self.columns.items()]
        return "\n".join((f"## `{name}`: {self.row}", "", "| column | type | |", "|---|---|---|", *lines))

    def of(self, run: Path) -> pl.DataFrame:
        """Return its rows; empty if it was not recorded. Raises RuntimeError, with one line, if a file is damaged."""
        table = self.read(run)
        if table is None:
            return pl.DataFrame(schema=self.columns)
        wanted = self.columns.items()
        missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in wanted if name not in table.columns]
        return table.with_columns(missing).select(list(self.columns)).cast(self.columns)  # type: ignore[arg-type]


def _of_victim(read: Callable[[Path, Setting], pl.DataFrame | None]) -> Callable[[Path], pl.DataFrame | None]:
    return lambda run: read(run, Setting.read(run))


def _phases(_: Path, setting: Setting) -> pl.DataFrame:
    rows = [(phase.name, phase.contender, phase.start, phase.end) for phase in setting.phases]
    return pl.DataFrame(rows, schema=["phase", "contender", "start", "end"], orient="row", infer_schema_length=None)


def _packets(run: Path, setting: Setting) -> pl.DataFrame | None:
    sides = [
        per_flow.with_advance(table).with_columns(side=pl.lit(side))
        for side in ("server", "client")
        if (table := _captured(run, side, setting)) is not None
    ]
    return addressed(pl.concat(sides)) if sides else None


def _captured(run: Path, side: str, setting: Setting) -> pl.DataFrame | None:
    file = capture_file(run, side)
    return None if file is None else read_capture(file, side, setting).packets


def _sojourn(run: Path, setting: Setting) -> pl.DataFrame | None:
    before, behind = (_captured(run, side, setting) for side in ("server", "client"))
    if before is None or behind is None:
        return None
    return addressed(crossings_down(before, behind, setting.lab)[0])


def addressed(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with the addresses `src` and `dst` as text in place of numbers."""
    numbers = {*table["src"].unique(), *table["dst"].unique()}
    names = {number: str(ip_address(number)) for number in numbers}
    as_text = [pl.col(end).replace_strict(names, return_dtype=pl.String) for end in ("src", "dst")]
    return table.with_columns(as_text) if names else table


def _frames(run: Path, setting: Setting) -> pl.DataFrame | None:
    if setting.screening:
        lines = records.read_lines(run / "player.jsonl", records.PLAYER)
        return frames.presented(lines, setting.clip_fps).select("t", "frame", pl.col("height").cast(pl.Int32))
    screen, video = run / "screen.json", run / "screen.mp4"
    # A row is one frame of one picture; the screen of a room has several, and that of a web page none.
    if setting.room or setting.web or not screen.exists() or not video.exists():
        return None
    shown = frames.read_recording(video, records.read(screen, records.SCREEN)["start"])
    facts = setting.clip or {}
    heights = facts.get("heights", rendition.LADDER)
    read = (pl.col("frame") >= 0) & (pl.col("rendition") < len(heights)) if heights else pl.col("frame") >= 0
    ladder = {index: height for index, height in enumerate(heights)}
    height = pl.col("rendition").replace_strict(ladder, default=None, return_dtype=pl.Int32)
    shown = shown.with_columns(height=pl.when(read).then(height), frame=pl.when(read).then("frame").otherwise(-1))
    loop = facts.get("frames")
    if setting.call and loop:
        # A camera's film is so short that only its log tells where a call goes on after a stall.
        lines = records.read_lines(camera, records.PLAYER) if (camera := run / _FAR_LOG).exists() else []
        return glass_to_glass.shown_frames(shown, glass_to_glass.camera_log(lines, loop), loop, setting.clip_fps)
    return shown.with_columns(frame=frames.unwrap(shown["frame"], loop))


def _sound(run: Path, setting: Setting) -> pl.DataFrame | None:
    folders = {"client": run, FAR: run / FAR}
    if (
        not setting.sound
        or setting.speech
        or not all((folder / name).exists() for folder in folders.values() for name in _OF_SOUND)
    ):
        return None
    lines = {end: records.read_lines(folder / "player.jsonl", records.PLAYER) for end, folder in folders.items()}
    heard = {
        "client": ear(lines["client"], lines[FAR], run / SOUND),
        FAR: ear(lines[FAR], lines["client"], run / FAR / SOUND),
    }
    parts = [it.tones.with_columns(listener=pl.lit(end)) for end, it in heard.items() if it is not None]
    return pl.concat(parts) if parts else None


def _game(run: Path, setting: Setting) -> pl.DataFrame | None:
    if not all((run / name).exists() for name in (CLIENT, SERVER)):
        return None
    client, server = (records.read_lines(run / name, records.GAME) for name in (CLIENT, SERVER))
    game = game_of([(client, server)], setting.server_ahead_s)
    ways = (("down", game.ticks), ("up", game.inputs))
    return pl.concat([table.select(pl.lit(way).alias("way"), "t", "delay_ms", "late_ms") for way, table in ways])


def _pictures(run: Path) -> pl.DataFrame | None:
    return _in_unix_time(read_judged(run), run)


def _speech(run: Path) -> pl.DataFrame | None:
    return _in_unix_time(read_judged_speech(run), run)


def _in_unix_time(judged: pl.DataFrame | None, run: Path) -> pl.DataFrame | None:
    if judged is None:
        return None
    first, *_ = records.read(run / "timeline.json", records.TIMELINE)["phases"]
    return judged.with_columns(t=pl.col("t") + first["start"])


def _probes(run: Path, setting: Setting) -> pl.DataFrame | None:
    first, second = PROBES
    codepoint: str = first.codepoint
    options = run / "options.json"
    if second.key not in setting.lab.get("ports", {}) and options.exists():
        codepoint = records.read(options, records.OPTIONS).get("probe_ecn", codepoint)  # of scores before 2.2
    streams = (
        (first.file, "bottleneck", codepoint), (second.file, "bottleneck", second.codepoint),
        (_UNSHAPED, "unshaped", "not-ect"),
    )  # fmt: skip
    paths = []
    for name, through, ecn in streams:
        if file := first_of(run, f"{name}.json.gz", f"{name}.json"):
            sent = latency.read_irtt(file)
            paths.append(sent.with_columns(path=pl.lit(through), ecn=pl.lit(CODEPOINTS.get(str(ecn)), pl.UInt8)))
    return pl.concat(paths) if paths else None


def _player(run: Path, _: Setting) -> pl.DataFrame | None:
    lines = _player_lines(run)
    rows = [line for line in lines or () if line.get("event") != "frame"]
    for row in rows:
        if "detail" in row:
            row["detail"] = json.dumps(row["detail"])
    return None if lines is None else from_rows(rows, TABLES["player"].columns)


def _noted(table: str, event: str, moment: str) -> Callable[[Path, Setting], pl.DataFrame | None]:
    """Return what reads the events of one kind in the player's log: their details, and the column of their time."""

    def read(run: Path, _: Setting) -> pl.DataFrame | None:
        lines = _player_lines(run) or ()
        rows = [{moment: line["t"], **line["detail"]} for line in lines if line.get("event") == event]
        return from_rows(rows, TABLES[table].columns) if rows else None

    return read


def _player_lines(run: Path) -> list[Any] | None:
    file = run / "player.jsonl"
    return records.read_lines(file, records.PLAYER) if file.exists() else None


def _queue(run: Path, _: Setting) -> pl.DataFrame | None:
    file = run / "qdisc.jsonl"
    if not file.exists():
        return None
    rows = [
        {"t": sample["t"], "dev": sample["dev"], **queue_row(qdisc)}
        | {name: _ms(qdisc.get(key)) for name, key in (("delay_c_ms", "delay-c"), ("delay_l_ms", "delay-l"))}
        for sample in records.read_lines(file, records.QDISC)
        for qdisc in sample["qdiscs"]
    ]
    return from_rows(rows, TABLES["queue"].columns)


def queue_row(qdisc: dict[str, Any]) -> dict[str, Any]:
    """Return a qdisc of `tc -s` by the columns of QUEUE."""
    return {**qdisc, "marks": marks(qdisc), "sce_marks": sce_marks(qdisc)}


def _ms(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e3


def _sockets(run: Path, _: Setting) -> pl.DataFrame | None:
    files = [file for name in ("ss.jsonl", "ss-up.jsonl") if (file := run / name).exists()]
    lines = [line for file in files for line in records.read_lines(file, records.SOCKETS)]
    return from_rows(lines, TABLES["sockets"].columns) if files else None


def _fetches(run: Path, _: Setting) -> pl.DataFrame | None:
    file = run / "bulk.json"
    if not file.exists():
        return None
    flows = [flow for flow in records.read(file, records.BULK)["flows"] if "fetches" in flow]
    rows = [
        {"phase": flow["phase"], "server_port": flow["sender_port"], **it} for flow in flows for it in flow["fetches"]
    ]
    return from_rows(rows, TABLES["fetches"].columns)


def _responsiveness(run: Path, _: Setting) -> pl.DataFrame | None:
    file, bulk, rows = run / PROBES_FILE, run / "bulk.json", list[dict[str, Any]]()
    if file.exists():
        rows += records.read_lines(file, records.RPM)
    if bulk.exists():
        flows = records.read(bulk, records.BULK)["flows"]
        rows += [{"phase": flow["phase"], **it} for flow in flows for it in flow.get("probes", ())]
    return from_rows(rows, TABLES["responsiveness"].columns) if rows else None


def from_rows(rows: list[Any], columns: Columns) -> pl.DataFrame:
    """Return a table of these columns from records that may have others, and may have some of them missing."""
    kept = [{name: row.get(field) for name, field in columns.fields.items()} for row in rows]
    return pl.DataFrame(kept, schema=columns, strict=False)


QUEUE = columns_of(records.QdiscRecord) | {
    "marks": TableColumn(
        pl.Float64,
        "CE marks so far by the qdisc's counter (dualpi2's may count a packet twice); null: not counted by this qdisc",
    ),
    "sce_marks": TableColumn(pl.Float64, "SCE marks (ECT(1)) so far; null: not an SCE queue"),
}
"""Columns of a qdisc in a sample of `tc -s`."""
_PLAYER = columns_of(records.PlayerLine)
TABLES: Mapping[str, Table] = {
    "phases": Table(
        "a phase of the timeline",
        Columns(columns_of(records.PhaseRecord)),
        _SETTING,
        _of_victim(_phases),
    ),
    "packets": Table(
        "a TCP or UDP packet at one side of the router, in capture order",
        Columns(
            {
                "side": TableColumn(pl.String, "`server` (WAN, before the downlink bottleneck) or `client` (LAN)"),
                "t_ns": TableColumn(pl.Int64, "Unix ns, by the clock of the run"),
                **ENDS,
                "ecn": TableColumn(pl.UInt8, _ECN),
                "ip_bytes": TableColumn(pl.UInt16, "IP header and all after it"),
                "seq": TableColumn(pl.UInt32, "TCP sequence number; 0 for UDP"),
                "flags": TableColumn(pl.UInt16, "TCP flags with AE as bit 8; 0 for UDP"),
                "payload": TableColumn(pl.UInt16, "bytes after the TCP or UDP header"),
                "ip_id": TableColumn(pl.UInt16, "identification field of the IPv4 header; 0 for IPv6"),
                "fingerprint": TableColumn(pl.UInt64, "identifies the same packet on the other side"),
                "advance": TableColumn(pl.Int64, "new bytes of the flow in this packet; their sum is the goodput"),
                "resent": TableColumn(pl.Boolean, "TCP data without new bytes: a retransmission"),
            }
        ),
        (*_SETTING, *_CAPTURES),
        _of_victim(_packets),
    ),
    "sojourn": Table(
        "a downlink packet of victim, contender or probes, on its way through the bottleneck",
        Columns(
            {
                "t": TableColumn(pl.Float64, "Unix s, before the router"),
                "of": TableColumn(pl.String, "`victim`, `contender`, `probe` (Not-ECT) or `ect1_probe`"),
                "queue": TableColumn(
                    pl.String,
                    "`L` or `C` of dualpi2 by the packet's ECN codepoint (RFC 9332), also behind a black box; all "
                    "other queues are `C`. With `nqb`, packets with DSCP 45 are in L and listed as `C`",
                ),
                "sojourn_ms": TableColumn(
                    pl.Float64,
                    "time in the router minus the path delay; null: lost; below 0: error of a clock or of the path",
                ),
                **ENDS,
                "ip_bytes": TableColumn(pl.UInt16, "IP header and all after it"),
                "payload": TableColumn(pl.UInt16, "bytes after the TCP or UDP header"),
                "ecn": TableColumn(pl.UInt8, f"{_ECN}; before the router"),
                "marked": TableColumn(pl.Boolean, "CE after the router but not before"),
                "late": TableColumn(pl.Boolean, "overtaken by a later packet of its flow"),
            }
        ),
        (*_SETTING, *_CAPTURES),
        _of_victim(_sojourn),
    ),
    "frames": Table(
        "a frame of the recording; in a screening run, one that the player presented",
        Columns(
            {
                "t": TableColumn(pl.Float64, "Unix s"),
                "frame": TableColumn(
                    pl.Int64,
                    "film frame shown, counted across loops; null: strip not readable, or (in a call) not in the "
                    "camera's log",
                ),
                "height": TableColumn(pl.Int32, "lines of the displayed rendition; null: not in the strip"),
            }
        ),
        (*_SETTING, "screen.json", "screen.mp4", "player.jsonl", _FAR_LOG),
        _of_victim(_frames),
    ),
    "pictures": Table(
        "a picture that `sojourn quality --write` compared with the film",
        Columns(
            {"t": TableColumn(pl.Float64, "Unix s at which it was first seen")}
            | {name: TableColumn(kind, JUDGED.texts[name]) for name, kind in JUDGED.items() if name != "t"}
        ),
        ("timeline.json", QUALITY),
        _pictures,
    ),
    "sound": Table(
        "20 ms of the sound that an end of a call spoke",
        Columns(
            {
                "t": TableColumn(pl.Float64, "Unix s when it was spoken"),
                "listener": TableColumn(pl.String, "`client`, or `far`: the other end"),
                "delay_ms": TableColumn(pl.Float64, "from the microphone to the listener's ear; null: never heard"),
            }
        ),
        (*_SETTING, *_OF_SOUND, *(f"{FAR}/{name}" for name in _OF_SOUND)),
        _of_victim(_sound),
    ),
    "speech": Table(
        "a segment of speech that `sojourn quality --speech --write` compared with what was spoken",
        Columns(
            {"t": TableColumn(pl.Float64, "Unix s when its first sound was spoken")}
            | {
                name: TableColumn(kind, JUDGED_SPEECH.texts[name])
                for name, kind in JUDGED_SPEECH.items()
                if name != "t"
            }
        ),
        ("timeline.json", SPEECH),
        _speech,
    ),
    "game": Table(
        "a packet of a game that is the victim, in order of sending: ticks down, then inputs up",
        Columns(
            {
                "way": TableColumn(pl.String, "`down` (a tick) or `up` (an input)"),
                "t": TableColumn(pl.Float64, "Unix s when it was sent"),
                "delay_ms": TableColumn(pl.Float64, "one-way delay; null: lost"),
                "late_ms": TableColumn(pl.Float64, "the delay above the least one of the run in this direction"),
            }
        ),
        (*_SETTING, CLIENT, SERVER),
        _of_victim(_game),
    ),
    "probes": Table(
        "a packet of a latency probe (irtt); every probe through the bottleneck sends 50 per second",
        Columns(
            {
                "t": TableColumn(pl.Float64, "Unix s when it was sent"),
                "path": TableColumn(pl.String, "`bottleneck`, or `unshaped` (bypasses the queue)"),
                "ecn": TableColumn(pl.UInt8, f"{_ECN}; as sent: in dualpi2 0 sees the C queue, 1 the L queue"),
                "rtt_ms": TableColumn(pl.Float64, "round-trip time; null: lost"),
            }
        ),
        (
            *(*_SETTING, "options.json"),
            *(f"{name}.json{gz}" for name in (*(it.file for it in PROBES), _UNSHAPED) for gz in (".gz", "")),
        ),
        _of_victim(_probes),
    ),
    "responsiveness": Table(
        "a probe of a Responsiveness Test: of `--rpm`, or of a competing `rpm`",
        Columns(
            {
                "phase": TableColumn(pl.String, "phase of the competing test; null: a probe of `--rpm`"),
                **columns_of(records.RpmProbe),
            }
        ),
        (*_SETTING, PROBES_FILE, "bulk.json"),
        _of_victim(_responsiveness),
    ),
    "player": Table(
        "the player's state every 250 ms, and its events",
        Columns(
            {name: _PLAYER[name] for name in ("t", "event")}
            | {"detail": TableColumn(pl.String, "data of the event, as JSON")}
            | _PLAYER
        ),
        (*_SETTING, "player.jsonl"),
        _of_victim(_player),
    ),
    "decisions": Table(
        "a segment that the player requested, with `--player`",
        Columns({"t": _PLAYER["t"], **columns_of(records.Decision)}),
        (*_SETTING, "player.jsonl"),
        _of_victim(_noted("decisions", "decision", "t")),
    ),
    "loads": Table(
        "a load of a web page, from the start of its navigation",
        Columns({"start": TableColumn(pl.Float64, "Unix s"), **columns_of(records.LoadRecord)}),
        (*_SETTING, "player.jsonl"),
        _of_victim(_noted("loads", "load", "start")),
    ),
    "queue": Table(
        "a qdisc of the router in a sample of `tc -s`, ten per second",
        Columns(
            {
                "t": TableColumn(pl.Float64, "Unix s"),
                "dev": TableColumn(pl.String, "device; `lan`: downlink"),
                **QUEUE,
                "delay_c_ms": TableColumn(pl.Float64, "dualpi2: sojourn time of the packet at the head of the C queue"),
                "delay_l_ms": TableColumn(pl.Float64, "dualpi2: sojourn time of the packet at the head of the L queue"),
            }
        ),
        (*_SETTING, "qdisc.jsonl"),
        _of_victim(_queue),
    ),
    "sockets": Table(
        "a contender's socket in a sample of `ss -tin`",
        Columns(columns_of(records.SocketSample)),
        (*_SETTING, "ss.jsonl", "ss-up.jsonl"),
        _of_victim(_sockets),
    ),
    "fetches": Table(
        "a short flow of a competing web user",
        Columns(
            {
                "phase": TableColumn(pl.String, "phase of the flow"),
                "server_port": TableColumn(pl.UInt16, "server port, different for every web user of a load"),
                **columns_of(records.FetchRecord),
            }
        ),
        (*_SETTING, "bulk.json"),
        _of_victim(_fetches),
    ),
}
