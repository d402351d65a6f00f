# SPDX-License-Identifier: Apache-2.0
"""The page of a cell: its scores, and for each seed goodput and TCP RTT over time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
from markupsafe import Markup
from polars.exceptions import PolarsError
from pydantic import ValidationError

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.qdiscs import marks, sce_marks
from sojourn.hardware.machine.messages import first_wrong, printable
from sojourn.harness.matrix.cells.counters import COUNTERS, shown
from sojourn.harness.matrix.results import figure_text, seeds_text
from sojourn.harness.report.contender_names import display_name
from sojourn.harness.report.experiments import headline_rate
from sojourn.harness.report.headline import sureness
from sojourn.harness.report.html import render
from sojourn.harness.report.palette import looks
from sojourn.harness.report.run_page import ReportError
from sojourn.harness.report.svg import Line, Panel, Points, ccdf_plot, time_plot
from sojourn.harness.store.loaded import cell_of
from sojourn.harness.store.manifest import REPORT, Manifest
from sojourn.scoring.gates.contenders import ECN_NAMES
from sojourn.scoring.measured import is_measured
from sojourn.scoring.schema.cell_scores import CallScores, CompletionScores, FlowScores, Period, ProbeScores
from sojourn.scoring.schema.columns import FLOWS, PACKETS
from sojourn.scoring.schema.files import FILES
from sojourn.scoring.schema.metric import metrics_of, unit_of, with_unit
from sojourn.scoring.transport.single_packets import BIN_S
from sojourn.traffic.spec import RecordedCall

FIXED_RTT_MS = 300.0
"""Top of the RTT's fixed scale, the same in every cell, so that plots are comparable."""
_POINTS = 240
#: Flows up to which each is named in each panel.
_NAMED = 3


def run_page(run: Path, scores: Mapping[str, Any], manifest: Manifest) -> str:
    """Return `report.html` of a cell's run. Raises StoreError, ReportError."""
    seed = manifest.seed or 0
    try:
        cell = Cell.model_validate(cell_of(run)["cell"])
        view = cell_page(manifest.test, cell, {seed: scores}, {seed: run}, "")
    except (ValueError, LookupError, TypeError, AttributeError, PolarsError) as wrong:  # files of any version
        why = first_wrong(wrong) if isinstance(wrong, ValidationError) else f"{type(wrong).__name__}: {wrong}"
        raise ReportError(
            f"{run}: cannot be shown by this version: {printable(why.splitlines()[0])}", code="other-version"
        ) from wrong
    return render("cell.html.j2", view)


def cell_page(
    title: str, cell: Cell, runs: Mapping[int, Mapping[str, Any]], paths: Mapping[int, Path], up: str
) -> dict[str, Any]:
    """Return the content of a cell's page from the scores and folders of its runs by seed.

    `title` is that of its matrix, and `up` the matrix's report, from the folder above; empty for none.
    """
    plots: list[dict[str, Any]] = []
    for seed, path in paths.items():
        plots += _plots(cell, path, seed, dict(runs[seed]))
    return {
        "name": cell.name,
        "matrix": title,
        "up": up,
        "setup": _setup(cell),
        "tables": _tables(cell, runs, paths),
        "plots": plots,
        "files": [
            (seed, [(f"{path.name}/{name}" if up else name, name, file.text) for name, file in FILES.items()
                    if name != REPORT and (path / name).exists()])
            for seed, path in paths.items()
        ],
        "headline": _headline(cell, runs),
    }  # fmt: skip


def _headline(cell: Cell, runs: Mapping[int, Mapping[str, Any]]) -> str:
    """Return rates and delays in one sentence, means over the seeds, and how sure they are; empty without any."""

    def of(part: str, n: int, metric: str) -> list[float]:
        every = [scores.get(part) or [] for scores in runs.values()]
        return [float(value) for rows in every if n < len(rows) and (value := rows[n].get(metric)) is not None]

    if not runs:
        return ""
    label, rate = headline_rate(next(iter(runs.values())))
    rates = [
        f"{display_name(flow.contender)} {figure_text(fmean(given), 2)}"
        for n, flow in enumerate(cell.flows)
        if n < _NAMED and (given := of("flows", n, rate))
    ]
    delays = [
        f"{_codepoint(probe.ecn)} {figure_text(fmean(given), 2)}"
        for n, probe in enumerate(cell.probes)
        if n < _NAMED and (given := of("probes", n, "p99_ms"))
    ]
    said = [f"{label} in Mbit/s: {', '.join(rates)}"] if rates else []
    said += [f"P99 of the probes in ms: {', '.join(delays)}"] if delays else []
    return f"{'; '.join(said)}. {sureness(len(runs), None)}" if said else ""


def _setup(cell: Cell) -> list[str]:
    lines = []
    for name, flow in zip(_flow_names(cell), cell.flows, strict=True):
        own = [
            f"paced at {flow.pacing_bps / 1e6:g} Mbit/s" if flow.pacing_bps else "",
            f"from port {flow.from_port}" if flow.from_port else "",
        ]
        if any(own):
            lines.append(f"flow {name}: {', '.join(filter(None, own))}")
    for n, hop in enumerate(cell.hops, 1):
        ways = [
            f"{name} {way.rate_bps / 1e6:g} Mbit/s, {way.qdisc}"
            + (f", {' '.join(way.path.tc_args())}" if way.path.needed else "")
            for name, way in (("down", hop.down), ("up", hop.up))
            if way
        ]
        if hop.slots and hop.down:
            link = f"{hop.slots.file or 'generated'}, {hop.down.rate_bps / 1e6:.3g} Mbit/s on average"
            ways[0] = f"down delivery trace ({link}), {hop.down.qdisc}"
        steps = [
            f"{name} {step.rate_bps / 1e6:g} Mbit/s from {step.at_s:g} s"
            for name, schedule in (("down", hop.schedule), ("up", hop.schedule_up))
            for step in schedule
        ]
        names = ", ".join(_flow_names(cell)[flow] for flow in hop.mangled_flows)
        mangled = f"{hop.mangle} for {names}" if names else hop.mangle
        more = [mangled, "one flow queue per host down" if hop.host_queue else ""]
        text = "; ".join(filter(None, [*ways, *steps, *more]))
        lines.append(f"middlebox {n}: {text or 'forwards unshaped'}")
        if hop.down and (caution := hop.down.qdisc.caution(hop.down.rate_bps)):
            lines.append(f"caution, middlebox {n}: {caution}")
    if cell.sender_queue:
        lines.append(f"root qdisc of the sending hosts: {cell.sender_queue}")
    if cell.pacing_percent:
        start, steady = cell.pacing_percent
        lines.append(f"TCP paces at {start} % of cwnd/RTT in slow start, {steady} % after it")
    if cell.tso_2020:
        lines.append("TCP builds packets of several segments as Linux did in 2020")
    if cell.offloads:
        lines.append("segmentation offloads are on: a queue's packet is up to 64 KiB")
    if cell.tunnel:
        lines.append(f"tunnel: {cell.tunnel}" + (f", replay window {cell.replay_window}" if cell.replay_window else ""))
    if isinstance(cell.call, RecordedCall):
        which = f" above {cell.call.ecn_above_bytes} bytes" if cell.call.ecn_above_bytes else ""
        lines.append(f"recorded call: {cell.call.bitrate_bps / 1e6:.3g} Mbit/s both ways, {cell.call.ecn}{which}")
    elif cell.call:
        sender = f"{cell.call.cc} {cell.call.trial}".strip() if cell.call.cc != "gcc" else cell.call.ecn
        lines.append(f"call: {cell.call.bitrate_bps / 1e6:g} Mbit/s each way, {sender}")
    if cell.short_flows:
        short = cell.short_flows
        lines.append(
            f"{short.count} short flows of {display_name(short.contender)} from {short.start_s:g} s, "
            f"{short.mean_gap_s:g} s apart"
            + (", from the slow start threshold of earlier ones" if short.remember_ssthresh else "")
        )
    return lines


def _tables(cell: Cell, runs: Mapping[int, Mapping[str, Any]], paths: Mapping[int, Path]) -> list[dict[str, Any]]:
    names = _flow_names(cell)
    over = seeds_text(list(runs)) + (", minimum to maximum in brackets." if len(runs) > 1 else ".")
    probes = [f"{_codepoint(probe.ecn)}, {'round trip' if probe.round_trip else 'one way'}" for probe in cell.probes]
    tables = []
    for title, key, record, heads in (
        ("Flows", "flows", FlowScores, names),
        ("Periods of constant rate", "periods", Period, None),
        ("Probes", "probes", ProbeScores, probes),
        ("Call", "call", CallScores, ["down", "up"]),
    ):
        lists = [scores.get(key) or [] for scores in runs.values()]
        wide = max((len(items) for items in lists), default=0)
        if not wide or (key == "periods" and wide == 1):
            continue
        lines = []
        for name, metric in metrics_of(record).items():
            line = [
                _spread(
                    [
                        items[n].get(name)
                        for scores, items in zip(runs.values(), lists, strict=True)
                        if n < len(items) and is_measured(scores, f"{key}.{n}.{name}")
                    ],
                    metric.digits,
                )
                for n in range(wide)
            ]
            if any(text != "–" for text in line):
                lines.append([with_unit(metric.label, unit_of(name)), *line])
        heads = heads or [f"from {item['start_s']:g} s" for item in lists[0]]
        caption = f"{over} In thresholds, {_numbered(key, wide)}."
        tables.append({"title": title, "caption": caption, "heads": ["", *heads], "rows": lines})
    if shorts := [scores["short"] for scores in runs.values() if scores.get("short")]:
        rows_shown = [
            [
                with_unit(metric.label, unit_of(name)),
                _spread([short.get(name) for short in shorts], metric.digits, f"short.{name}"),
            ]
            for name, metric in metrics_of(CompletionScores).items()
        ]
        tables.append({"title": "Short flows", "caption": over, "heads": ["", "all"], "rows": rows_shown})
    if queues := _queues(next(iter(paths.values()))):
        heads = ["queue", "packets", "Mbyte", "dropped", "marked CE", "marked SCE"]
        caption = f"The kernel's counters at the end of seed {next(iter(paths))}."
        tables.append({"title": "Queues", "caption": caption, "heads": heads, "rows": queues})
    ends, counted = shown(next(iter(paths.values())))
    if counted:
        caption = f"Counters of the ends' kernels, seed {next(iter(paths))}; all of them are in {COUNTERS}."
        tables.append({"title": "TCP and IP counters", "caption": caption, "heads": ["", *ends], "rows": counted})
    return tables


def _numbered(key: str, count: int) -> str:
    """Return how the paths of metrics number the items of a list, which they count from 0."""
    return f"the columns are {key}.0 to {key}.{count - 1}" if count > 1 else f"the column is {key}.0"


def _queues(run: Path) -> list[list[str]]:
    """Return the counters of every queue with traffic at the end of a run."""
    try:
        last: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for line in (run / "queues.jsonl").read_text().splitlines():
            sample = json.loads(line)
            last[sample["hop"], sample["dev"]] = sample["qdiscs"]
    except (OSError, ValueError, KeyError):
        return []
    rows = []
    for (hop, dev), qdiscs in last.items():
        for q in qdiscs:
            if q.get("packets") and q["kind"] not in ("htb", "ingress", "noqueue"):
                name = f"middlebox {hop + 1} {'down' if dev == 'lan' else 'up'}: {q['kind']}"
                counts = [str(q["packets"]), f"{q.get('bytes', 0) / 1e6:.1f}", str(q.get("drops", 0))]
                marked = ["–" if n is None else str(n) for n in (marks(q), sce_marks(q))]
                rows.append([name, *counts, *marked])
    return rows


def _codepoint(ecn: str) -> str:
    return ECN_NAMES.get(ecn, ecn)


def _flow_names(cell: Cell) -> list[str]:
    return [
        f"{n} {display_name(flow.contender)} {flow.rtt_us / 1000:g} ms{' up' if flow.up else ''}"
        for n, flow in enumerate(cell.flows, 1)
    ]


def _flow_looks(cell: Cell) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Return the flows' looks and their names in panels; if those do not fit, no names, and a key for all panels."""
    names = _flow_names(cell)
    kinds = looks(names)
    if len(names) <= _NAMED:
        return kinds, names, []
    return kinds, [""] * len(names), list(zip(names, kinds, strict=True))


def _plots(cell: Cell, run: Path, seed: int, scores: Mapping[str, Any]) -> list[dict[str, Any]]:
    plots: list[dict[str, Any]] = []
    if cell.flows and (run / "flows.csv").exists():
        flows = FLOWS.read(run / "flows.csv")
        rates, rtts = series(flows, cell.seconds, cell.sample_s)
        kinds, names, key = _flow_looks(cell)
        largest = max((y for points in rtts.values() for _, y in points if y is not None), default=1.0)
        top = max((y for points in rates.values() for _, y in points if y is not None), default=1.0)
        panels = [
            Panel("goodput (Mbit/s)", 200, top * 1.05),
            Panel(f"TCP RTT, fixed scale (ms, {FIXED_RTT_MS:g} at the top)", 150, FIXED_RTT_MS),
            Panel("TCP RTT, free scale (ms)", 150, largest * 1.05),
        ]
        for panel, points in zip(panels, (rates, rtts, rtts), strict=True):
            panel.lines = [Line(kinds[n], curve, names[n]) for n, curve in points.items()]
        # A flow that is not TCP has no TCP RTT.
        panels = [panel for panel in panels if any(y is not None for line in panel.lines for _, y in line.points)]
        svg = time_plot(panels, [("", "solo", 0, cell.seconds)], f"goodput and RTT, seed {seed}", axis="time (s)")
        plots.append(
            {
                "title": f"Goodput and TCP RTT, seed {seed}",
                "key": key,
                "svg": Markup(svg),
                "note": f"Goodput: payload received in {cell.seconds / _POINTS:.2g} s. RTT: the sender's largest "
                "smoothed RTT in that time.",
            }
        )
    if (run / "packets.csv").exists() and scores.get("packets"):
        plots.append(_packets(cell, scores, PACKETS.read(run / "packets.csv"), seed))
    probes = [probe for probe in scores.get("probes", []) if probe.get("ccdf")]
    seen = [f"probe {_codepoint(probe['ecn'])}" for probe in probes]
    curves = [
        (name, kind, ccdf_points(probe["ccdf"]))
        for name, kind, probe in zip(seen, looks([probe["ecn"] for probe in probes]), probes, strict=True)
    ]
    if curves:
        svg = ccdf_plot(curves, f"CCDF of the queue delay, seed {seed}", axis="queue delay (ms)")
        key = [(name, kind) for name, kind, _ in curves]
        plots.append({"title": f"Queue delay, seed {seed}", "key": key, "svg": Markup(svg), "note": ""})
    return plots


def ccdf_points(curve: Mapping[str, Any]) -> Points:
    """Return a `sojourn.scoring.schema.cell_scores.Ccdf`, as in JSON, as points (ms, percent).

    All lost: one at 100 %.
    """
    return list(zip(curve["ms"], curve["percent"], strict=True)) or [(0.0, 100.0)]


def _packets(cell: Cell, scores: Mapping[str, Any], packets: pl.DataFrame, seed: int) -> dict[str, Any]:
    """Each flow's egress over time, and the delay of its packets, thinned to `_POINTS` · 8 of all."""
    egress = Panel(f"egress in {BIN_S:g} s (Mbit/s)", 200, 1.0)
    owd = Panel("one-way delay of single packets (ms)", 200, 1.0)
    thin = packets.drop_nulls("delay_us").gather_every(max(packets.height // (_POINTS * 8), 1))
    kinds, names, key = _flow_looks(cell)
    for n, flow in enumerate(scores["packets"]["flows"]):
        rates = [((at + 0.5) * BIN_S, mbps) for at, mbps in enumerate(flow["series"])]
        mine = thin.filter(pl.col("flow") == n)
        delays = list(zip(mine["t_s"].to_list(), (mine["delay_us"] / 1e3).to_list(), strict=True))
        egress.lines.append(Line(kinds[n], rates, names[n]))
        owd.lines.append(Line(kinds[n], delays, names[n]))
        egress.top = max([egress.top, *(y * 1.05 for _, y in rates)])
        owd.top = max([owd.top, *(y * 1.05 for _, y in delays)])
    svg = time_plot([egress, owd], [("", "solo", 0, cell.seconds)], f"packets, seed {seed}", axis="time (s)")
    note = "Measured from packets where they leave the path: headers and retransmissions are included."
    return {"title": f"Packets, seed {seed}", "key": key, "svg": Markup(svg), "note": note}


def series(flows: pl.DataFrame, seconds: float, sample_s: float) -> tuple[dict[int, Points], dict[int, Points]]:
    """Return goodput (Mbit/s) and largest TCP RTT (ms) over time (s) of each flow, in about 240 steps."""
    step = max(seconds / _POINTS, sample_s)
    binned = (
        flows.with_columns(bin=(pl.col("t_s") / step).floor().cast(pl.Int64))
        .group_by("flow", "bin", maintain_order=True)
        .agg(pl.col("t_s").last(), pl.col("received_bytes").last(), (pl.col("srtt_us").max() / 1e3).alias("rtt"))
        .with_columns(
            mbps=pl.col("received_bytes").diff().over("flow") * 8e-6 / pl.col("t_s").diff().over("flow"),
        )
    )
    rates: dict[int, Points] = {}
    rtts: dict[int, Points] = {}
    for (n,), part in binned.partition_by("flow", as_dict=True, maintain_order=True).items():
        rates[n] = list(zip((part["t_s"] - step / 2).to_list(), part["mbps"].to_list(), strict=True))
        rtts[n] = [(t, rtt or None) for t, rtt in zip(part["t_s"].to_list(), part["rtt"].to_list(), strict=True)]
    return rates, rtts


def _spread(values: list[Any], digits: int, metric: str = "") -> str:
    known = [float(value) for value in values if value is not None]
    if not known:
        return "–"
    mean, least, most = (figure_text(value, digits, metric) for value in (fmean(known), min(known), max(known)))
    return f"{mean} ({least}–{most})" if len(known) > 1 else mean
