# SPDX-License-Identifier: Apache-2.0
"""The files of a run, each declared once: what it holds, which runs have it, whether a seed decides its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class RunFile:
    """One file of a run directory, by what it holds."""

    text: str
    of: Literal["any run", "a victim's run", "a cell's run"]
    seeded: bool = False
    """Of a cell in simulated time: whether the seed decides every byte, so that equal files are the same run."""


def _files(of: Literal["any run", "a victim's run", "a cell's run"], **texts: str) -> dict[str, RunFile]:
    return {name: RunFile(text, of) for name, text in texts.items()}


FILES: dict[str, RunFile] = {
    **_files(
        "any run",
        **{
            "manifest.json": "status, reasons, seed, commit, versions, and the hashes of all files",
            "manifest.json.sig": "a signature of the manifest",
            "ro-crate-metadata.json": "the files of a bundle, for other tools",
            "client.pcapng.zst": "packet headers on the router's LAN side",
            "server.pcapng.zst": "packet headers on the router's WAN side",
            "setup.log": "every command with its output",
            "teardown.log": "every command with its output",
            "scores.json": "the figures, computed from the other files",
            "report.html": "the report, computed from the other files",
        },
    ),
    **_files(
        "a victim's run",
        **{
            "options.json": "every option as resolved",
            "timeline.json": "the phases with start and end",
            "lab.json": "addresses, ports, rates and queues",
            "screen.mp4": "the recording of the screen",
            "screen.json": "time of the recording's first frame, frames missing",
            "player.jsonl": "what the player said of itself",
            "irtt.json.gz": "round-trip times through the bottleneck, Not-ECT",
            "irtt-ect1.json.gz": "round-trip times through the bottleneck, ECT(1)",
            "irtt-unshaped.json.gz": "round-trip times past the bottleneck's queue",
            "bulk.json": "the contenders' own account",
            "ss.jsonl": "the contenders' sockets, sampled",
            "ss-up.jsonl": "the uploads' sockets, sampled",
            "qdisc.jsonl": "counters of the bottleneck's queues, sampled",
            "router-clock.jsonl": "the offset of a physical router's clock, sampled",
            "host.jsonl": "processor use and stalls of the host",
        },
    ),
    "cell.json": RunFile("the specification of the cell, its seed, kernel and lab", "a cell's run"),
    "counters.json": RunFile("TCP and IP counters of both ends", "a cell's run"),
    "wire.csv": RunFile("each flow as the bottleneck saw it, by its outer headers", "a cell's run"),
    "flows.csv": RunFile("each flow's progress and TCP state, sampled", "a cell's run", seeded=True),
    "probes.csv": RunFile("the delay of each probe", "a cell's run", seeded=True),
    "short.csv": RunFile("the completion time of each short flow", "a cell's run", seeded=True),
    "queues.jsonl": RunFile("counters of the queues, sampled", "a cell's run", seeded=True),
    "talks.csv": RunFile("each packet of a call", "a cell's run", seeded=True),
    "packets.csv": RunFile("each downlink packet of the flows", "a cell's run", seeded=True),
    "replay.csv": RunFile("what a tunnel's replay window dropped", "a cell's run", seeded=True),
}
RAW = tuple(name for name, file in FILES.items() if file.seeded)
"""What the seed of a cell in simulated time decides bit for bit."""
CELL, OPTIONS = "cell.json", "options.json"
"""The specification of a cell's run, and of a victim's run."""
