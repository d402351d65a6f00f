# SPDX-License-Identifier: Apache-2.0
"""Figures as text: numbers, shares, intervals and delays, the same in tables, sentences and plots."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf, isfinite, isinf
from typing import TYPE_CHECKING

from sojourn.scoring.statistics.numbers import LOST, UNFINISHED, formatted, never_came

if TYPE_CHECKING:
    from sojourn.scoring.statistics.intervals import Estimate
    from sojourn.scoring.statistics.summary import ExperimentSummary, Figure


def mbit(bps: float | None) -> str:
    """Return a rate as a table shows it; a dash for None."""
    return "–" if bps is None else f"{round(bps / 1e6, 2):g} Mbit/s"


def interval(figure: Estimate | None, never: str = LOST) -> str:
    """Return a figure with its interval in brackets, as text; `never` is the text for infinity."""
    if figure is None:
        return "–"
    if figure.low is None or figure.high is None or figure.low == figure.high == figure.value:
        return number(figure.value, never)
    return f"{number(figure.value, never)} ({number(figure.low, never)} to {number(figure.high, never)})"


def between(figure: Estimate | None) -> str:
    """Return the interval of a harm; empty without one."""
    if figure is None or figure.low is None or figure.high is None:
        return ""
    return f"{two_decimals(figure.low)} to {two_decimals(figure.high)}"


def figure_text(figure: Figure, summary: ExperimentSummary, contender: str | None = None) -> str:
    """Return a measured figure with its interval, alone or with a contender; in words if it is infinite."""

    def estimate(metric: str) -> Estimate | None:
        known = figure if metric == figure.metric else summary.figure(metric)
        if known is None:
            return None
        return known.of(contender)

    def of(metric: str) -> float | None:
        figure_estimate = estimate(metric)
        return None if figure_estimate is None else figure_estimate.value

    shown = estimate(figure.metric)
    if shown is None or isfinite(shown.value):
        return interval(shown, never_came(figure.metric))
    return value_text(figure.metric, of)


#: For a percentile that may be infinite, by the prefix of its name: the share that never arrived, the word for it, and
#: the P99 of what arrived, and its label.
_NEVER = {
    "rtt": ("probe_loss", "lost", "rtt_answered_p99_ms", "of the answered"),
    "ect1_rtt": ("ect1_probe_loss", "lost", "ect1_rtt_answered_p99_ms", "of the answered"),
    "frame": ("frame_loss", "never shown", "frame_shown_p99_ms", "of those shown"),
    "ear": ("ear_loss", "never heard", "", ""),
    "call_down": ("call_down_loss", "lost", "", ""),
    "call_up": ("call_up_loss", "lost", "", ""),
    "game_down": ("game_down_loss", "lost", "", ""),
    "game_up": ("game_up_loss", "lost", "", ""),
    "tick": ("tick_loss", "lost", "", ""),
    "input": ("input_loss", "lost", "", ""),
}
_WEB = "web_fct"


def value_text(metric: str, of: Callable[[str], float | None]) -> str:
    """Return a metric's displayed value; `of` returns any metric of the same phase.

    A percentile that falls on lost probes is `∞ (2.1 % lost; 21.7 ms of the answered)`; on an unfinished flow it is
    `> 8.3 s (4 of 13 unfinished)`.
    """
    value = of(metric)
    if value is None or isfinite(value):
        return number(value)
    if metric.startswith(_WEB):
        least, unfinished, flows = of(f"{metric.removesuffix('_s')}_least_s"), of("web_unfinished"), of("web_flows")
        counted = UNFINISHED if not unfinished or not flows else f"{unfinished:.0f} of {flows:.0f} unfinished"
        return counted if least is None else f"> {_short(least)} s ({counted})"
    known = next((names for begins, names in _NEVER.items() if metric.startswith(begins)), None)
    if known is None:
        return number(value, never_came(metric))
    loss, became, came, of_what = known
    rest = of(came) if came and "p99" in metric else None
    return infinite_text(of(loss), became, "" if rest is None else f"; {_short(rest)} ms {of_what}")


def milliseconds(value: float) -> str:
    """Return a delay for a sentence or an overview, without its unit: one decimal below 10 ms."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def infinite_text(share: float | None, became: str = "lost", rest: str = "") -> str:
    """Return an infinite figure with the share of what never came."""
    return f"∞ ({'' if share is None else f'{percent(share)} '}{became}{rest})"


def _short(value: float) -> str:
    """Format a figure in brackets: one decimal if it is small."""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def percent(share: float) -> str:
    """Return a share in percent, with enough decimals that only exactly 0 and 1 show as 0 % and 100 %.

    It is rounded as `two_decimals` rounds: 0.905 must not be 0.91 in a table and 90 % in a sentence.
    """
    for decimals in (0 if share >= 0.1 else 1, 1, 2):
        text = f"{100 * float(f'{share:.{decimals + 2}f}'):.{decimals}f}"
        if share in (0, 1) or float(text) not in (0, 100):
            break
    return f"{float(text):g} %"


def by_numbers(text: str) -> list[tuple[int, str]]:
    """Return the key that sorts `pfifo limit 67` before `pfifo limit 1000`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]


def number(value: float | int | None, never: str = LOST) -> str:
    """Return a figure as shown in a table; a dash for None, `never` for infinity, signed only if lost."""
    if value is None:
        return "–"
    if isinf(value):
        return formatted(value, "", never) if never == LOST else never
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:.0f}"
    return two_decimals(value) if abs(value) < 100 else f"{value:.0f}"


def difference_text(value: float | None) -> str:
    """Return a difference of figures as shown in a table; an infinite one is not what an infinite figure means."""
    return "−∞" if value == -inf else number(value, "∞")


def p_text(p: float | None, without: str = "–") -> str:
    """Return a p as shown in a table, never as 0; `without` for None."""
    return without if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def two_decimals(value: float) -> str:
    """Return a finite figure with two decimals, such as a harm; a rounded zero has no sign."""
    return f"{value:z.2f}"
