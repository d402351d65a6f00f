# SPDX-License-Identifier: Apache-2.0
"""A game that is the victim sent its packets throughout, at its rate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sojourn.scoring.gates.base import covers, gate, gate_of_runs
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.validity import Gate

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence

#: Share of the packets due that an end must have sent: a busy host sends later, not fewer.
_SENT = 0.99


@gate_of_runs("game-complete", "game-rate")
def game(run: RunEvidence) -> Iterable[Gate]:
    """Both ends of a game sent throughout the timeline."""
    if run.setting.game is None or run.game is None:
        return
    for name, table in (("ticks", run.game.ticks), ("inputs", run.game.inputs)):
        yield covers("game-complete", f"game's {name}", table["t"], run.setting.span, run.limits)
        yield sent_rate(name, table["t"].to_list(), run.setting.span, run.setting.game["tick_hz"])


def sent_rate(name: str, sent: Sequence[float], span: Window, tick_hz: float) -> Gate:
    """An end must send `tick_hz` packets per second; `sent` are their times, Unix s."""
    rate = sum(span[0] <= t < span[1] for t in sent) / (span[1] - span[0])
    measured = f"{rate:.2f} per second"
    return gate(
        "game-rate", f"game's {name} sent", rate >= _SENT * tick_hz, measured, f"at least {_SENT:.0%} of {tick_hz:g}"
    )
