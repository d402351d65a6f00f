# SPDX-License-Identifier: Apache-2.0
"""Scoring of a million captured packets: seconds, memory, ratio to tshark, and whether both count the same.

Without files a pair of captures is made: a download through a queue that delays, marks and drops. Files given
(.pcapng, .pcapng.zst) are compared with tshark instead.
"""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import zstandard
from rich.console import Console
from rich.table import Table

from sojourn.scoring.packets import pcapng, per_flow, sojourn
from sojourn.scoring.packets.pcapng import block

PACKETS = 1_000_000
BLOCK = 100  # bytes of a packet in the file: 32 of pcapng, Ethernet, IPv4 and TCP with time stamps, 2 of padding
STEP_NS = 120_000  # a segment each: 100 Mbit/s
LOST, MARKED = 0.003, 0.01
FIELDS = ("frame.time_epoch", "ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "ip.dsfield.ecn", "ip.len", "tcp.len")
REPEATED = "tcp.analysis.retransmission || tcp.analysis.out_of_order"


def write(file: Path, t_ns: npt.NDArray[np.int64], number: npt.NDArray[np.int64], ecn: npt.NDArray[np.uint8]) -> None:
    """Write segments of one download by number, each second one answered by an acknowledgement."""
    row = np.zeros((len(t_ns), BLOCK), np.uint8)

    def put(at: int, values: Any, kind: str) -> None:
        row[:, at : at + np.dtype(kind).itemsize] = (
            np.ascontiguousarray(np.broadcast_to(np.asarray(values, kind), len(t_ns)))
            .view(np.uint8)
            .reshape(len(t_ns), -1)
        )

    up = number < 0
    seq, payload = np.abs(number) * 1448 % 2**32, np.where(up, 0, 1448)
    ends = np.array([0x0A2A0214, 0x0A2A0114])  # 10.42.2.20 and 10.42.1.20
    ports = np.array([40001, 5201])
    for at, value, kind in (
        (0, 6, "<u4"), (4, BLOCK, "<u4"), (12, t_ns >> 32, "<u4"), (16, t_ns & 0xFFFFFFFF, "<u4"),
        (20, 66, "<u4"), (24, 66 + payload, "<u4"), (96, BLOCK, "<u4"),
        (40, 0x0800, ">u2"), (42, 0x45, "u1"), (43, ecn, "u1"), (44, 52 + payload, ">u2"),
        (46, np.abs(number) % 65536, ">u2"), (48, 0x4000, ">u2"), (50, 64, "u1"), (51, 6, "u1"),
        (54, ends[up * 1], ">u4"), (58, ends[1 - up], ">u4"), (62, ports[up * 1], ">u2"), (64, ports[1 - up], ">u2"),
        (66, np.where(up, 1, 1 + seq), ">u4"), (70, np.where(up, 1 + seq, 1), ">u4"), (74, 0x8010, ">u2"),
        (76, 65535, ">u2"), (82, 0x0101080A, ">u4"), (86, np.abs(number) // 8, ">u4"),
    ):  # fmt: skip
        put(at, value, kind)

    head = block(0x0A0D0D0A, bytes.fromhex("4d3c2b1a01000000") + b"\xff" * 8)
    head += block(1, bytes.fromhex("0100000080000000") + bytes.fromhex("0900010009000000") + bytes(4))
    tail = block(5, bytes(12) + bytes.fromhex("05000800") + bytes(8) + bytes(4))
    file.write_bytes(head + row.tobytes() + tail)


def made(folder: Path) -> tuple[Path, Path]:
    """The same download before and behind a queue: delayed, marked, and each loss sent again 20 ms later."""
    draw = np.random.default_rng(1)
    count = PACKETS * 2 // 3
    number = np.arange(1, count + 1)
    t = 1_800_000_000_000_000_000 + number * STEP_NS
    lost = draw.random(count) < LOST
    again = t[lost] + 20_000_000 + 7
    wait = (5e6 + 4e6 * np.sin(number / 5e4)).astype(np.int64)
    marked = draw.random(count) < MARKED
    acks = -number[1::2]
    sides = []
    for late, arrived, ecn in ((0, np.ones(count, bool), np.ones(count)), (wait, ~lost, np.where(marked, 3, 1))):
        times = np.concatenate(
            [(t + late)[arrived], again + np.broadcast_to(late, count)[lost], (t + wait)[1::2] + 9_000]
        )
        numbers = np.concatenate([number[arrived], number[lost], acks])
        codepoints = np.concatenate([ecn[arrived], np.zeros(lost.sum()), np.zeros(len(acks))]).astype(np.uint8)
        order = np.argsort(times, kind="stable")
        sides.append((times[order], numbers[order], codepoints[order]))
    files = folder / "before.pcapng", folder / "behind.pcapng"
    for file, (times, numbers, codepoints) in zip(files, sides, strict=True):
        write(file, times, numbers, codepoints)
    return files


def one(file: Path) -> pl.DataFrame:
    """What scoring makes of a capture: the table of its flows; goodput in steps of 100 ms is made beside it."""
    advanced = per_flow.with_advance(pcapng.read(file).packets)
    first, last = advanced["t_ns"].min() / 1e9, advanced["t_ns"].max() / 1e9  # type: ignore[operator]
    per_flow.goodput_series(advanced, first, last, 0.1)
    return per_flow.flow_table(advanced)


def pair(before: Path, behind: Path) -> pl.DataFrame:
    """The way of each packet from one capture to the other."""
    return sojourn.crossings(pcapng.read(before).packets, pcapng.read(behind).packets)


def measured(work: Callable[..., Any], *files: Path) -> tuple[float, float]:
    """Seconds and peak MB of `work` in a process of its own."""
    context = multiprocessing.get_context("spawn")  # polars' threads do not outlive a fork
    with context.Pool(1) as pool:
        return pool.apply(timed, (work, *files))


def timed(work: Callable[..., Any], *files: Path) -> tuple[float, float]:
    begun = time.monotonic()
    work(*files)
    return time.monotonic() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def tshark(file: Path) -> tuple[pl.DataFrame, float]:
    """One row a TCP flow and direction as tshark counts them, and the seconds that it took."""
    command = ["tshark", "-n", "-r", str(file), "-Y", "tcp", "-T", "fields", "-E", "occurrence=f"]
    for field in (*FIELDS, "tcp.analysis.retransmission", "tcp.analysis.out_of_order"):
        command += ["-e", field]
    begun = time.monotonic()
    text = subprocess.run(command, check=True, capture_output=True).stdout
    seconds = time.monotonic() - begun
    names = [*FIELDS, "retransmission", "out_of_order"]
    rows = pl.read_csv(text, separator="\t", has_header=False, new_columns=names, infer_schema=False)
    data = pl.col("tcp.len").cast(pl.Int64) > 0
    again = pl.col("retransmission").is_not_null() | pl.col("out_of_order").is_not_null()
    ecn = pl.col("ip.dsfield.ecn").cast(pl.Int64)
    return rows.group_by("ip.src", "tcp.srcport", "ip.dst", "tcp.dstport").agg(
        packets=pl.len(), data_packets=data.sum(), resent=(data & again).sum(),
        **{name: (data & (ecn == value)).sum() for value, name in enumerate(("not_ect", "ect1", "ect0", "ce"))},
    ), seconds  # fmt: skip


def compare(file: Path) -> tuple[list[str], float]:
    """What differs between our flow table and tshark's, and tshark's seconds."""
    theirs, seconds = tshark(file)
    count = ("packets", "data_packets", "resent", "not_ect", "ect1", "ect0", "ce")
    expected = {
        (per_flow.address(src), int(sport), per_flow.address(dst), int(dport)): counts
        for src, sport, dst, dport, *counts in theirs.select(*theirs.columns[:4], *count).iter_rows()
    }
    ours = {
        (row["src"], row["sport"], row["dst"], row["dport"]): [row[name] for name in count]
        for row in one(file).filter(pl.col("proto") == pcapng.TCP).iter_rows(named=True)
    }
    return [
        f"{flow}: {name} {a} here, {b} by tshark"
        for flow in sorted(ours.keys() | expected.keys())
        for name, a, b in zip(count, ours.get(flow, [None] * 7), expected.get(flow, [None] * 7), strict=True)
        if a != b
    ], seconds


def unpacked(file: Path, folder: Path) -> Path:
    """A file that tshark reads as well."""
    if file.suffix != ".zst":
        return file
    plain = folder / f"{len(list(folder.iterdir()))}-{file.stem}"
    with file.open("rb") as source, plain.open("wb") as sink:
        zstandard.ZstdDecompressor().copy_stream(source, sink)
    return plain


def main() -> int:
    folder = Path(tempfile.mkdtemp())
    try:
        given = [unpacked(Path(name), folder) for name in sys.argv[1:]]
        files = given or list(made(folder))
        table = Table("what", "packets", "s", "peak MB", "ratio to tshark")
        wrong = []
        for file in files:
            seconds, peak = measured(one, file)
            differing, theirs = compare(file)
            count = pcapng.read(file).packets.height
            table.add_row(
                f"flows of {file.name}", f"{count}", f"{seconds:.2f}", f"{peak:.0f}", f"{seconds / theirs:.3f}"
            )
            wrong += [f"{file.name}: {line}" for line in differing]
        if len(files) == 2:
            seconds, peak = measured(pair, *files)
            table.add_row("sojourn times of both", "", f"{seconds:.2f}", f"{peak:.0f}", "")
        console = Console()
        console.print(table)
        console.print("\n".join(wrong) or "every count is tshark's", highlight=False)
        return bool(wrong)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
