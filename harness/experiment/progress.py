# SPDX-License-Identifier: Apache-2.0
"""Progress of an experiment: a live panel on a terminal, one line per phase elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sojourn.harness.experiment.busy_host import BusyHost
from sojourn.harness.options.timeline import Phase
from sojourn.harness.terminal import QUIET_S, clock_text, console_of

#: The counter of the client's interface includes probes and headers: the tables have the victim's goodput.
_CALLED = {"victim": "client on the wire", "contender": "contender's goodput"}
_BARS = "▁▂▃▄▅▆▇█"
_HISTORY = 40


@dataclass(frozen=True)
class Sample:
    """The state of the running experiment, None where unknown. Goodputs in bit/s, `buffer_s` in seconds."""

    victim_bps: float | None = None
    contender_bps: float | None = None
    quality: str | None = None
    playing: bool | None = None
    buffer_s: float | None = None
    stalls: int = 0


class ExperimentProgress:
    """The display of one experiment: a context manager; call `phase` and `update` as it runs."""

    def __init__(
        self,
        title: str,
        phases: Sequence[Phase],
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` returns the experiment's time, s; the time left is in real time."""
        self.title, self.phases, self._clock = title, list(phases), clock
        self.console = console or console_of(sys.stderr)
        self.total = sum(phase.seconds for phase in phases)
        self.sample = Sample()
        self._index = -1
        self._started = clock()
        self._begun = self._last_shown = time.monotonic()
        self._seen: list[Sample] = []
        self._history: dict[str, deque[float]] = {who: deque(maxlen=_HISTORY) for who in ("victim", "contender")}
        self._live: Live | None = None
        self._host = BusyHost()

    def phase(self, index: int) -> None:
        """Announce that the phase at `index` begins now."""
        self._finish_phase()
        if self._index < 0:
            self._begun = time.monotonic()
        self._index, self._started, self._seen = index, self._clock(), []
        self.sample = replace(self.sample, contender_bps=None)

    def update(self, **known: Any) -> None:
        """Update the display; names as in `Sample`, omitted values stay."""
        self.sample = replace(self.sample, **known)
        self._seen.append(self.sample)
        self._history["victim"].append(self.sample.victim_bps or 0)
        self._history["contender"].append(self.sample.contender_bps or 0)
        if self._index >= 0:
            self.passed(*self._spent())

    def passed(self, spent: float, done: float) -> None:
        """Report once that the host is busy and, without a panel, occasionally how many seconds have passed."""
        if busy := self._host.line():
            self.say(busy)
        if not self._live and time.monotonic() - self._last_shown > QUIET_S:
            self._last_shown = time.monotonic()
            phase = self.phases[self._index]
            self.say(f"  {phase.name}: {spent:.0f} of {phase.seconds:.0f} s, {self._left(done)}")

    @property
    def processor_share(self) -> float:
        """The share of the processor time that the run could use and got so far; 1 before it is known."""
        return self._host.given

    def _spent(self) -> tuple[float, float]:
        """Return the elapsed seconds of phase and experiment, in the experiment's time."""
        spent = min(self._clock() - self._started, self.phases[self._index].seconds)
        return spent, sum(phase.seconds for phase in self.phases[: self._index]) + spent

    def _left(self, done: float) -> str:
        """Return the remaining real time, at the speed so far."""
        if done < 1:
            return f"{clock_text(self.total - done)} to go"
        rate = (time.monotonic() - self._begun) / done
        return f"about {clock_text((self.total - done) * rate)} left"

    def say(self, text: str) -> None:
        """Print one line above the display."""
        self.console.print(Text(text))

    def __enter__(self) -> ExperimentProgress:
        if self.console.is_terminal:
            self._live = Live(
                get_renderable=self._render,
                console=self.console,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        else:
            self.say(f"{self.title}: {len(self.phases)} phases, {clock_text(self.total)}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish_phase(" (cut short)" if kind else "")
        if self._live:
            self._live.stop()

    def _finish_phase(self, note: str = "") -> None:
        if not 0 <= self._index < len(self.phases):
            return
        phase = self.phases[self._index]
        parts = [f"{self._index + 1}/{len(self.phases)} {phase.name:<8} {phase.seconds:>4.0f} s{note}"]
        for who in ("victim", "contender"):
            known = [v for sample in self._seen if (v := getattr(sample, f"{who}_bps")) is not None]
            if known and (who == "victim" or phase.contender):
                parts.append(f"{_CALLED[who]} {_rate(sum(known) / len(known)).strip()}")
        if self.sample.quality:
            parts.append(f"quality {self.sample.quality}")
        parts.append(f"stalls so far {self.sample.stalls}")
        self.say(_wrapped(parts, self.console.width))

    def _render(self) -> RenderableType:
        sample = self.sample
        if self._index < 0:
            return Panel(Text("starting", style="dim"), title=Text(self.title), title_align="left")
        phase = self.phases[self._index]
        spent, done = self._spent()
        grid = Table.grid(padding=(0, 2))
        for _ in range(3):
            grid.add_column()
        grid.add_row(
            "phase",
            Text(phase.name, style="bold"),
            f"{self._index + 1} of {len(self.phases)}, {clock_text(phase.seconds - spent)} left",
        )
        grid.add_row(
            _CALLED["victim"], _rate(sample.victim_bps), Text(_sparkline(self._history["victim"]), style="blue")
        )
        grid.add_row(
            _CALLED["contender"],
            _rate(sample.contender_bps) if phase.contender else Text("none", style="dim"),
            Text(_sparkline(self._history["contender"]), style="red"),
        )
        state = {None: "", True: "playing", False: "not playing"}[sample.playing]
        ahead = "" if sample.buffer_s is None else f"  {sample.buffer_s:.1f} s ahead"
        stalls = Text(f"stalls so far {sample.stalls}", style="bold red" if sample.stalls else "")
        grid.add_row("player", Text(sample.quality or "–"), Text.assemble(f"{state}{ahead}  ", stalls))
        return Panel(
            Group(self._bar(done), grid),
            title=Text(self.title),
            subtitle=self._left(done),
            title_align="left",
            subtitle_align="right",
        )

    def _bar(self, done: float, width: int = 64) -> Text:
        # One cell is total/width seconds; solo phases are blue, contended ones red, future ones dim.
        bar, at = Text(), 0.0
        for phase in self.phases:
            colour = "red" if phase.contender else "blue"
            for cell in range(round(at / self.total * width), round((at + phase.seconds) / self.total * width)):
                past = cell < done / self.total * width
                bar.append("━", style=colour if past else f"dim {colour}")
            at += phase.seconds
        return bar


def _wrapped(parts: Sequence[str], width: int) -> str:
    """Return parts in as few lines of this width as they need; none is broken."""
    lines = [parts[0]]
    for part in parts[1:]:
        if cell_len(lines[-1]) + 2 + cell_len(part) > width:
            lines.append(f"   {part}")
        else:
            lines[-1] += f"  {part}"
    return "\n".join(lines)


def _sparkline(values: Sequence[float] | deque[float]) -> str:
    top = max(values, default=0) or 1
    return "".join(_BARS[min(int(value / top * len(_BARS)), len(_BARS) - 1)] for value in values)


def _rate(bps: float | None) -> str:
    return "–" if bps is None else f"{bps / 1e6:5.2f} Mbit/s"
