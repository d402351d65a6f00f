# SPDX-License-Identifier: Apache-2.0
"""Round-trip times from irtt's JSON: percentiles and the curve P(r > x), in which a lost probe is infinitely late."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
import numpy.typing as npt
import polars as pl
from typing_extensions import TypedDict

from sojourn.hardware.machine.json_text import bounded
from sojourn.scoring.packets.unpacked import unpacked
from sojourn.scoring.statistics.numbers import nearest_rank

# The shares of samples above x in a curve: 100 % down to 0.01 %, dense where readers look.
_TAILS = np.unique(np.concatenate([np.linspace(0, 1, 101), np.logspace(-4, 0, 121)]))[::-1]
#: Values of a log; each probe has about 30, and there are 100 a second: more than three hours.
_MOST_VALUES = 1 << 25


class _Stamp(TypedDict):
    wall: int


class _End(TypedDict):
    send: NotRequired[_Stamp]
    receive: NotRequired[_Stamp]


class _Stamps(TypedDict):
    client: _End
    server: _End


class _Delay(TypedDict):
    rtt: NotRequired[int]
    send: NotRequired[int]
    receive: NotRequired[int]


class RoundTrip(TypedDict):
    """A round trip in irtt's JSON, as far as it is read: times in ns, `lost` as in irtt ("false", "true_down", …)."""

    lost: str
    timestamps: _Stamps
    delay: _Delay


ROUND_TRIPS = list[RoundTrip]
Trip = dict[str, Any]
Row = tuple[float, float | None]


class ProbeError(RuntimeError):
    """A probe log that cannot be read; the text names the file and what is wrong."""


def read_irtt(file: Path) -> pl.DataFrame:
    """Return one row per probe of an irtt client's JSON (.json or .json.gz): columns t, rtt_ms.

    t is the client's wall clock at sending (Unix s); rtt_ms is null for a lost probe. Raises ProbeError.
    """

    def row(trip: Trip) -> Row:
        sent = trip["timestamps"]["client"]["send"]["wall"]
        return sent / 1e9, trip["delay"]["rtt"] / 1e6 if trip["lost"] == "false" else None

    return pl.DataFrame(_rows(file, row), schema={"t": pl.Float64, "rtt_ms": pl.Float64}, orient="row")


def delays(file: Path) -> pl.DataFrame:
    """Return the rows of `read_irtt` as columns t, delay_us. Raises ProbeError."""
    return read_irtt(file).select("t", delay_us=pl.col("rtt_ms") * 1e3)


def read_irtt_down(file: Path, ahead_s: float = 0) -> pl.DataFrame:
    """Return one row per reply of an irtt server, from its client's JSON: columns t, delay_us, in order of sending.

    t is when it was sent by the client's clock (Unix s), when its request was for a lost one; delay_us is the delay to
    the client, null for a lost reply. The server's clock is `ahead_s` s ahead of the client's; both columns are as
    exact as that. Raises ProbeError.
    """
    ahead_ns = round(ahead_s * 1e9)

    def row(trip: Trip) -> Row | None:
        client, server = (trip["timestamps"].get(end, {}) for end in ("client", "server"))
        there = server.get("send", {}).get("wall")
        sent = there - ahead_ns if there else client["send"]["wall"]
        if trip["lost"] == "true_up":
            return None
        return sent / 1e9, (trip["delay"]["receive"] + ahead_ns) / 1e3 if trip["lost"] == "false" else None

    delays = pl.DataFrame(_rows(file, row), schema={"t": pl.Float64, "delay_us": pl.Float64}, orient="row")
    return delays.sort("t")


def _rows(file: Path, row: Callable[[Trip], Row | None]) -> list[Row]:
    """Return what `row` returns for every round trip, except None."""
    with _whole(file):
        return [read_row for trip in round_trips(file) if (read_row := row(trip)) is not None]


def round_trips(file: Path) -> list[Trip]:
    """Return the round trips of an irtt client's JSON (.json or .json.gz). Raises ProbeError."""
    with _whole(file):
        trips: list[Trip] = json.loads(bounded(b"".join(unpacked(file)), _MOST_VALUES))["round_trips"]
        return trips


@contextmanager
def _whole(file: Path) -> Iterator[None]:
    """Raise ProbeError, with the file's name, if the content does not come from irtt."""
    try:
        yield
    except (OSError, RecursionError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ProbeError(f"{file} is not a whole irtt result: {type(error).__name__}: {error}") from error


def within(probes: pl.DataFrame, windows: list[tuple[float, float]]) -> pl.DataFrame:
    """Return the probes sent inside the windows (Unix s)."""
    inside = [pl.col("t").is_between(start, end, closed="left") for start, end in windows]
    return probes.filter(pl.any_horizontal(inside)) if inside else probes.clear()


def answerable(probes: pl.DataFrame, under_way_s: float) -> pl.DataFrame:
    """Return the probes but those without an answer that were sent within `under_way_s` s of the last one.

    Their answers may have been under way when the probe was stopped.
    """
    late = pl.col("t") > pl.col("t").max() - under_way_s
    return probes.filter(~(late & pl.col("rtt_ms").is_null()))


def percentile(probes: pl.DataFrame, percent: float, column: str = "rtt_ms") -> float | None:
    """Return the RTT in ms that `percent` of all probes do not exceed (nearest rank); None if none was sent.

    A lost probe (null) is infinitely late, so the 99th percentile is infinite if more than 1 % are lost.
    """
    return nearest_rank(probes[column].drop_nulls().to_numpy(), percent, probes[column].null_count())


def largest(probes: pl.DataFrame, column: str = "rtt_ms") -> float | None:
    """Return the largest RTT in ms of the answered probes; None without any."""
    most = probes[column].max()
    return None if most is None else float(most)  # type: ignore[arg-type]


def loss(probes: pl.DataFrame) -> float | None:
    """Return the share of probes without an answer, 0 to 1; None if none was sent."""
    return probes["rtt_ms"].null_count() / probes.height if probes.height else None


def ccdf(probes: pl.DataFrame, column: str = "rtt_ms") -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(x in ms, P(r > x) in percent) of all probes: 2 % at x means that 98 % lie at or below x.

    At most about 200 points, spaced for a logarithmic axis; the last is the largest RTT. Lost probes exceed every x:
    the curve ends at their share. Empty if no probe was answered.
    """
    rtt, sent = np.sort(probes[column].drop_nulls().to_numpy()), probes.height
    if not rtt.size:
        return np.empty(0), np.empty(0)
    below = np.unique(np.ceil((1 - _TAILS) * sent).astype(int).clip(1, rtt.size))
    x = rtt[below - 1]
    above = (sent - np.searchsorted(rtt, x, side="right")) / sent * 100
    x, first = np.unique(x, return_index=True)
    return x, above[first]
