# SPDX-License-Identifier: Apache-2.0
"""Tables of README and docs of the rates of two flows: by rate and queue, and by how much rigs differ in them."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import fmean

from sojourn.harness.report.markdown import markdown_table
from sojourn.harness.report.stamps import PaperError
from sojourn.harness.store.loaded import CellRun, LoadedRun
from sojourn.scoring.statistics.intervals import estimate
from sojourn.scoring.statistics.rig_spread import SERIES, rig_spread


def shares_table(runs: Sequence[LoadedRun]) -> str:
    """Return the rates of two flows, and what the first has of the second, as a Markdown table: rate by queue.

    Rates are means over the rigs, Mbit/s; the ratio is the geometric mean with its 95 % interval.
    """
    found: dict[tuple[int, str], list[list[float]]] = {}
    for run in runs:
        if isinstance(run, CellRun):
            down = run.options["cell"]["hops"][0]["down"]
            rates = [flow["d_ss_mbps"] for flow in run.scores["flows"]]
            found.setdefault((int(down["rate_bps"]), down["qdisc"]), []).append(rates)
    queues = sorted({queue for _rate, queue in found})
    rows = []
    for rate in sorted({rate for rate, _queue in found}):
        shares = (_share(found.get((rate, queue), [])) for queue in queues)
        rows.append([f"{rate / 1e6:g} Mbit/s", *shares])
    return markdown_table(["rate", *(f"`{queue}`" for queue in queues)], rows)


def _share(pairs: Sequence[Sequence[float]]) -> str:
    if not pairs:
        return "–"
    means = " : ".join(f"{fmean(flow):.2f}" for flow in zip(*pairs, strict=True))
    if not all(min(flow) > 0 for flow in pairs):  # one of the flows got nothing
        return means
    ratio = estimate([log(first / second) for first, second in pairs])
    bounds = "" if ratio.low is None or ratio.high is None else f" ({exp(ratio.low):.2f} to {exp(ratio.high):.2f})"
    return f"{means}<br>× {exp(ratio.value):.2f}{bounds}"


def rigs_table(runs: Sequence[LoadedRun]) -> str:
    """Return how much rigs differ in log(rate of the first flow / second) and what intervals cover, by rate.

    `runs` are of the matrix `rigs`, exact and not. Raises PaperError without both at a rate.
    """
    exact, drawn = _log_ratios(runs, drawn=False), _log_ratios(runs, drawn=True)
    lengths = [f"{length} rigs" for length in SERIES]
    heads = ["rate", "SD between RTTs", "SD within an RTT (exact seeds)", "SD over rigs", "exact seeds", *lengths]
    heads.append(f"{SERIES[0]} rigs, of the exact paths' mean")
    rows = []
    for rate in sorted(exact.keys() | drawn.keys()):
        rigs = [value for _rtt, _seed, value in sorted(drawn.get(rate, []))]
        by_rtt: dict[int, list[float]] = {}
        for rtt, _seed, value in sorted(exact.get(rate, [])):
            by_rtt.setdefault(rtt, []).append(value)
        try:
            found = rig_spread(list(by_rtt.values()), rigs)
        except ValueError as few:
            raise PaperError(f"{rate / 1e6:g} Mbit/s: {few}", code="missing") from few
        spreads = [f"{value:.3f}" for value in (found.between_paths, found.within_path, found.over_rigs)]
        covers = [found.paths_cover, *found.rigs_cover.values(), found.rigs_cover_paths]
        rows.append([f"{rate / 1e6:g} Mbit/s", *spreads, *(f"{share:.2f}" for share in covers)])
    return markdown_table(heads, rows)


def _log_ratios(runs: Sequence[LoadedRun], *, drawn: bool) -> dict[int, list[tuple[int, int, float]]]:
    """Return, by rate in bit/s, (RTT in µs, seed, log(D_SS of flow 0 / flow 1)) of the cells' runs of one kind.

    Raises PaperError for a flow without a rate.
    """
    found: dict[int, list[tuple[int, int, float]]] = {}
    for run in runs:
        if isinstance(run, CellRun) and bool(run.manifest.drawn) == drawn and run.seed is not None:
            cell = run.options["cell"]
            rates = [flow["d_ss_mbps"] for flow in run.scores["flows"]]
            rate = int(cell["hops"][0]["down"]["rate_bps"])
            if min(rates) <= 0:
                raise PaperError(f"{run.path}: a flow got nothing, so no ratio", code="invalid-run")
            found.setdefault(rate, []).append((int(cell["flows"][0]["rtt_us"]), run.seed, log(rates[0] / rates[1])))
    return found
