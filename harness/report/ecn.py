# SPDX-License-Identifier: Apache-2.0
"""What every flow of a run did with ECN, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import polars as pl

from sojourn.harness.store.loaded import CellRun, LoadError, load_run
from sojourn.scoring.evidence import Setting, capture_file, read_capture
from sojourn.scoring.packets import pcapng
from sojourn.scoring.packets.ecn import EcnFlow, ecn_flows
from sojourn.scoring.packets.pcapng import TCP
from sojourn.scoring.packets.per_flow import address
from sojourn.scoring.packets.sojourn import crossings

_FAR_SIDE = "server", "sender"


@dataclass(frozen=True)
class EcnRow:
    """A flow as a table shows it; the numbers are of `sojourn.scoring.packets.ecn.EcnFlow`."""

    flow: str
    offered: str | None
    negotiated: str | None
    packets: int
    sent: str
    """Its codepoints, the most frequent first, with their share if there are several."""
    marked: int
    echoed: int | None
    answered: int | None
    findings: tuple[str, ...]


def ecn_rows(run: Path) -> list[EcnRow]:
    """Return the flows of a run, the most packets first: of a victim's run, or of a cell's with captures.

    Raises LoadError for a run without captures of both sides or with altered ones; CaptureError, RecordError.
    """
    loaded = load_run(run)
    of_cell = isinstance(loaded, CellRun)
    # Cells of labs keep their captures apart from the files that a seed reproduces.
    folders = (run, run / "evidence") if of_cell else (run,)
    files = {
        side: next((file for it in folders if (file := capture_file(it, side))), None) for side in ("server", "client")
    }
    if lacks := [side for side, file in files.items() if file is None]:
        remedy = "; `sojourn matrix --pcap` keeps them" if of_cell else ""
        text = f"{run}: no capture of the {' and the '.join(lacks)}; ecn needs both{remedy}"
        raise LoadError(text, code="missing")
    captured = {side: file for side, file in files.items() if file}
    loaded.require_unaltered(*(str(file.relative_to(run)) for file in captured.values()))
    if of_cell:
        near, far = (pcapng.read(file).packets for file in captured.values())
        return [_row(flow, {}) for flow in ecn_flows(near, far, _near_sources(near, far))]
    loaded.require_unaltered("lab.json", "timeline.json")
    setting = Setting.read(run)
    near, far = (read_capture(file, side, setting).packets for side, file in captured.items())
    names = {address(text): name for name, text in setting.lab["addresses"].items()}
    sources = [number for number, name in names.items() if name in _FAR_SIDE]
    return [_row(flow, names) for flow in ecn_flows(near, far, sources)]


def _near_sources(near: pl.DataFrame, far: pl.DataFrame) -> list[int]:
    """Return the addresses of the hosts on the side of the capture `near`: their packets come later to the other."""
    later = crossings(near, far).group_by("src").agg(pl.col("sojourn_ms").mean())
    return later.filter(pl.col("sojourn_ms") > 0)["src"].to_list()


def _row(it: EcnFlow, names: Mapping[int, str]) -> EcnRow:
    source, sport, sink, dport, proto = it.flow
    ends = (f"{names.get(host, ip_address(host))}:{port}" for host, port in ((source, sport), (sink, dport)))
    counts = {"ECT(1)": it.ect1, "ECT(0)": it.ect0, "Not-ECT": it.not_ect}
    sent = sorted(((count, name) for name, count in counts.items() if count), reverse=True)
    shares = [name if len(sent) == 1 else f"{name} {count / it.packets:.1%}" for count, name in sent]
    return EcnRow(
        flow=f"{' > '.join(ends)} {'TCP' if proto == TCP else 'UDP'}",
        offered=it.offered,
        negotiated=it.negotiated,
        packets=it.packets,
        sent=", ".join(shares),
        marked=it.marked,
        echoed=it.echoed,
        answered=it.answered,
        findings=it.findings,
    )
