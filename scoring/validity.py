# SPDX-License-Identifier: Apache-2.0
"""The types of a run's validity: gates, what they allow, and the verdict. A run that fails a gate is void.

The gates themselves are in `sojourn.scoring.gates`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from sojourn.hardware.machine.messages import printable


class Limits(BaseModel):
    """What is still good enough; every figure can be set."""

    model_config = ConfigDict(frozen=True)
    missing_share: float = 0.005  # of the recorder's frames
    unread_share: float = 0.05  # of recorded frames in which no strip could be read
    stall_ms: float = 20.0  # a second with a longer host stall is a bad second
    stall_share: float = 0.02  # bad seconds allowed
    stall_worst_ms: float = 200.0  # no second may be worse than this
    suspended_ms: float = 10.0  # by the clocks that count a suspended host's time and that do not
    clock_step_ms: float = 10.0  # of the wall clock in a second; one that is slewed moves 0.5 ms
    jitter_ms: float = 2.0  # P99 of the unshaped probe above the RTT asked for
    limited_share: float = 0.05  # of a contender's phase, in which something else than congestion control held it back
    contender_late_s: float = 5.0  # by which a contender's flow may miss the start or the end of its phase
    codepoint_share: float = 0.99  # of the contender's data packets with the codepoint it should send
    tail_s: float = 1.0  # by which a record may end before the last phase does
    gap_s: float = 5.0  # longest time without a sample inside the timeline
    unshaped_loss: float = 0.01  # of the probes beside the bottleneck
    tap_clocks_ms: float = 5.0  # by which the clocks of captures on both sides of a box may have drifted apart
    baseline_stall_s: float = 0.5  # a picture that stands this long in the solo baseline disturbs it
    baseline_fps_share: float = 0.95  # of the clip's frame rate, shown in the solo baseline
    call_fps_share: float = 0.84  # of a call: 26 of the camera's 31, with two browsers and two recorders on one machine
    baseline_changes: int = 0  # of the rendition in the solo baseline
    live_changes: int = 2  # the same in each minute of a real site's: its player tries the next rung, and comes back
    live_share: float = 0.8  # of the solo baseline of a real site, in one rendition


SIMULATED = Limits(missing_share=0.0, jitter_ms=0.05, unshaped_loss=0.0)
"""Of a lab in simulated time, where no host is late: what is missing there, or late, is a fault of ours."""


#: What is recorded and what a manifest from elsewhere says may be part of it.
Text = Annotated[str, AfterValidator(printable)]


class Gate(BaseModel):
    """One gate: `measured` and `limit` as text with units; `reason` is one line, empty when `ok`.

    `code` names the kind of gate, in kebab-case, and never changes: programs and tests go by it. `name` is for readers
    and says which record, end or phase. Scores before 2.3 have no code.
    """

    name: Text
    code: Text = ""
    ok: bool
    measured: Text
    limit: Text
    reason: Text = ""


class Validity(BaseModel):
    """All gates of a run, and whether it is valid: every gate is ok."""

    valid: bool
    gates: list[Gate]

    @property
    def reasons(self) -> list[str]:
        """Why the run is void, a line for each gate that it fails; empty for a valid one."""
        return [gate.reason for gate in self.gates if not gate.ok]

    @property
    def failed(self) -> list[str]:
        """The codes of the gates that the run fails, in their order; empty for a valid one."""
        return [gate.code for gate in self.gates if not gate.ok]

    @classmethod
    def of(cls, gates: Iterable[Gate]) -> Validity:
        """Judge the gates together."""
        judged = list(gates)
        return cls(valid=all(gate.ok for gate in judged), gates=judged)
