# SPDX-License-Identifier: Apache-2.0
"""The files of a run, declared once: their contents, and whether a seed determines their bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RunFile:
    """One file of a run directory, by its contents."""

    text: str
    seeded: bool = False
    """For a cell in simulated time: whether the seed determines every byte, so that equal files are the same run."""


FILES: dict[str, RunFile] = {
    "manifest.json": RunFile("status, reasons, seed, commit, versions, and the hashes of all files"),
    "manifest.json.sig": RunFile("a signature of the manifest"),
    "ro-crate-metadata.json": RunFile("the files of a bundle, for other tools"),
    "client.pcapng.zst": RunFile("packet headers on the router's LAN side"),
    "server.pcapng.zst": RunFile("packet headers on the router's WAN side"),
    "setup.log": RunFile("every command with its output"),
    "teardown.log": RunFile("every command with its output"),
    "scores.json": RunFile("the figures, computed from the other files"),
    "quality.csv": RunFile("SSIM and VMAF of the pictures shown, computed by `sojourn quality`"),
    "speech.csv": RunFile("MOS-LQO of the speech heard, computed by `sojourn quality --speech`"),
    "report.html": RunFile("the report, computed from the other files"),
    "options.json": RunFile("every option as resolved"),
    "timeline.json": RunFile("the phases with start and end"),
    "lab.json": RunFile("addresses, ports, rates and queues"),
    "screen.mp4": RunFile("the recording of the screen"),
    "screen.json": RunFile("time of the recording's first frame, frames missing"),
    "sound.flac": RunFile("the sound of a call as this end heard it"),
    "player.jsonl": RunFile("state of the page's player, sampled"),
    "game-client.jsonl": RunFile("each packet that a game's player sent and received"),
    "game-server.jsonl": RunFile("each packet that a game's server sent and received"),
    "irtt.json.gz": RunFile("round-trip times through the bottleneck, Not-ECT"),
    "irtt-ect1.json.gz": RunFile("round-trip times through the bottleneck, ECT(1)"),
    "irtt-unshaped.json.gz": RunFile("round-trip times around the bottleneck's queue"),
    "rpm.jsonl": RunFile("the foreign probes of --rpm: times of TCP, TLS and HTTP"),
    "bulk.json": RunFile("the contenders' own results"),
    "ss.jsonl": RunFile("the contenders' sockets, sampled"),
    "ss-up.jsonl": RunFile("the uploads' sockets, sampled"),
    "qdisc.jsonl": RunFile("counters of the bottleneck's queues, sampled"),
    "router-clock.jsonl": RunFile("the offset of a physical router's clock, sampled"),
    "host.jsonl": RunFile("CPU use and stalls of the host"),
    "cell.json": RunFile("the specification of the cell, its seed, kernel and lab"),
    "counters.json": RunFile("TCP and IP counters of both ends"),
    "wire.csv": RunFile("each flow as the bottleneck saw it, by its outer headers"),
    "flows.csv": RunFile("each flow's progress and TCP state, sampled", seeded=True),
    "probes.csv": RunFile("the delay of each probe", seeded=True),
    "short.csv": RunFile("the completion time of each short flow", seeded=True),
    "queues.jsonl": RunFile("counters of the queues, sampled", seeded=True),
    "talks.csv": RunFile("each packet of a call", seeded=True),
    "crossings.csv": RunFile("each packet of a browser call: its time in the bottleneck", seeded=True),
    "pictures.csv": RunFile("each frame of a browser call: its time to the other end's page", seeded=True),
    "estimates.csv": RunFile("the rate that each end of a browser call allows itself, per second", seeded=True),
    "tones.csv": RunFile("the delay of every 20 ms of a call's sound", seeded=True),
    "neteq.csv": RunFile("each second, the counters of a call's jitter buffers", seeded=True),
    "packets.csv": RunFile("each downlink packet of the flows", seeded=True),
    "intervals.csv": RunFile("rate, marks and queue delay of each flow per 100 ms", seeded=True),
    "replay.csv": RunFile("what a tunnel's replay window dropped", seeded=True),
}
RAW = tuple(name for name, file in FILES.items() if file.seeded)
"""What the seed of a cell in simulated time decides bit for bit."""
CELL, OPTIONS = "cell.json", "options.json"
"""The specification of a cell's run, and of a victim's run."""
