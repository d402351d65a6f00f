# SPDX-License-Identifier: Apache-2.0
"""What `sojourn ecn` reads from a cell's captures is what the kernels of both ends know of the same connection."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix.cells import simulated
from sojourn.harness.matrix.cells.cell_run import CellJob, perform
from sojourn.harness.matrix.cells.guest.network import network
from sojourn.harness.report.ecn import ecn_rows
from sojourn.scoring.packets import pcapng
from sojourn.scoring.packets.ecn import EcnFlow, ecn_flows
from sojourn.traffic import ports, ss
from sojourn.traffic.contender import ACCURATE_ECN, CLASSIC_ECN, CONTENDERS
from tests import test_rtt_fairness as s1
from tests.tiers import first

pytestmark = pytest.mark.lab

SECONDS, ASKED_S = 7, 6
_SEGMENTS = re.compile(r"\bsegs_in:(\d+)")


@dataclass(frozen=True)
class Socket:
    """One end of a connection as `ss` shows it."""

    ecn: bool
    ecnseen: bool
    delivered_ce: int
    segs_in: int


def run_asked(cell: Cell, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a cell with captures; `ss` in each namespace of an end writes to ss-NAMESPACE while the flows run."""
    spaces = ["receiver", *(host.space for host in network(cell).hosts.values())]
    lines = [f"ip netns exec {space} ss -tinoHO >ss-{space}" for space in spaces]
    written, bulk = simulated.script.script, "./bulk <<'END'"

    def asking(*args: object, **options: object) -> str:
        text = written(*args, **options)  # type: ignore[arg-type]
        assert text.count(bulk) == 1
        return text.replace(bulk, f"(sleep {ASKED_S}; {'; '.join(lines)}) &\n{bulk}")

    monkeypatch.setattr(simulated.script, "script", asking)
    simulated.run_cell(cell, folder, seed=1, pcap=True)


def sockets(folder: Path) -> dict[tuple[str, int], Socket]:
    """Return the sockets of bulk flows: sending or receiving, and the sender's port."""
    found = {}
    for line in (line for file in folder.glob("ss-*") for line in file.read_text().splitlines()):
        state, segments = ss.parse(line), _SEGMENTS.search(line)
        assert state and segments, line
        local, peer = (int(end.rsplit(":", 1)[1]) for end in state["flow"].split(">"))
        sends = local >= ports.FIRST_SENDER
        found["sends" if sends else "receives", local if sends else peer] = Socket(
            state["ecn"], state["ecnseen"], state["delivered_ce"], int(segments[1])
        )
    return found


def seen_until(folder: Path, asked: dict[tuple[str, int], Socket]) -> dict[int, EcnFlow]:
    """Return the flows by their sender's port, up to the acknowledgements that the sender had when `ss` asked.

    None was lost on its way up, so they are the first that the receiver sent.
    """
    near, far = (pcapng.read(folder / name).packets for name in reversed(simulated.CAPTURES))
    had = {port: it.segs_in for (end, port), it in asked.items() if end == "sends"}
    back = far.filter(pl.col("dport").is_in(list(had)))
    taken = [part.head(had[port]) for (port,), part in back.group_by("dport", maintain_order=True)]
    until = pl.concat([far.filter(~pl.col("dport").is_in(list(had))), *taken]).sort("t_ns")
    sources = near.filter(pl.col("sport").is_in(list(had)))["src"].unique().to_list()
    return {flow.flow[1]: flow for flow in ecn_flows(near, until, sources) if flow.flow[1] in had}


def unlike(cell: Cell, asked: dict[tuple[str, int], Socket], found: dict[int, EcnFlow]) -> Iterator[str]:
    """Yield what captures and kernels, or the cell's specification, do not agree in, a line each."""
    modes = {ACCURATE_ECN: "AccECN", CLASSIC_ECN: "ECN"}
    for n, flow in enumerate(cell.flows):
        seen, contender = found[ports.FIRST_SENDER + n], CONTENDERS[flow.contender]
        sender, receiver = (asked[end, ports.FIRST_SENDER + n] for end in ("sends", "receives"))
        mode = modes.get(contender.tcp_ecn, "none")
        capable = seen.ect1 if contender.ect1 else seen.ect0
        accurate = contender.tcp_ecn == ACCURATE_ECN
        for what, captured, known in (
            ("offered", seen.offered, mode),
            ("negotiated", seen.negotiated, mode),
            ("negotiated, ss of the sender", seen.negotiated != "none", sender.ecn),
            ("negotiated, ss of the receiver", seen.negotiated != "none", receiver.ecn),
            ("ECN-capable packets arrived, ss of the receiver", capable > 0, receiver.ecnseen),
            ("packets sent with its codepoint", capable, seen.packets - seen.not_ect),
            ("CE echoed, delivered_ce of ss", accurate and seen.echoed, accurate and sender.delivered_ce),
        ):
            if captured != known:
                yield f"flow {n} ({flow.contender}): {what}: captures {captured}, otherwise {known}"


def cells() -> list[Cell]:
    """Every cell of S1, those first that differ in what marks: a queue each, with the flows that it marks."""
    every = sorted(s1.MATRIX.cells, key=lambda cell: "prague" not in cell.name)
    queues: dict[object, list[Cell]] = {}
    for cell in every:
        down = cell.hops[0].down
        assert down
        queues.setdefault(down.qdisc.kind, []).append(cell)
    ahead = [cells[0] for cells in queues.values()]
    return [*ahead, *(cell for cell in every if cell not in ahead)]


@pytest.mark.parametrize("cell", first(4, cells()), ids=lambda cell: cell.name)
def test_ecn_agrees_with_ss_on_every_flow_of_s1(cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = cell.model_copy(update={"seconds": SECONDS})
    run_asked(short, tmp_path, monkeypatch)
    asked = sockets(tmp_path)
    found = seen_until(tmp_path, asked)
    marked = {port: (flow.marked, flow.echoed) for port, flow in found.items()}
    print(marked)
    assert not list(unlike(short, asked, found))
    # The kernel of the receiver counts the marked packets of all flows together, and those without payload.
    counted = json.loads((tmp_path / "counters.json").read_text())["receiver"].get("IpExtInCEPkts", 0)
    came = pcapng.read(tmp_path / simulated.CAPTURES[0]).packets.filter(
        pl.col("dport").is_between(ports.BULK, ports.BULK + 1)
    )
    bare = came.filter(pl.col("payload") == 0, pl.col("ecn") == pcapng.CE).height
    assert sum(flow.marked for flow in found.values()) + bare == counted


def test_the_command_reads_a_cell_with_captures(tmp_path: Path) -> None:
    """With the counters of the sender's kernel: every mark is echoed but for those on their way at the end."""
    cell = next(it for it in s1.MATRIX.cells if it.name == "cubic-vs-prague-dualpi2-10mbit-20ms-20ms")
    short = cell.model_copy(update={"seconds": 5})
    perform(CellJob(short, 1, window_s=2, tail_s=1, inputs="", pcap=True), tmp_path)
    last = pl.read_csv(tmp_path / "flows.csv").group_by("flow", maintain_order=True).last()
    rows = {int(row.flow.split(" > ")[0].rsplit(":", 1)[1]): row for row in ecn_rows(tmp_path) if row.offered}
    cubic, prague = (rows[ports.FIRST_SENDER + n] for n in range(2))
    assert (cubic.sent, prague.sent) == ("ECT(0)", "ECT(1)")
    for row, delivered_ce in zip((cubic, prague), last["delivered_ce"], strict=True):
        assert row.negotiated == "AccECN" and not row.findings
        assert 0 <= row.marked - delivered_ce < 50 and row.echoed is not None and row.echoed >= delivered_ce
    assert prague.marked > 50
