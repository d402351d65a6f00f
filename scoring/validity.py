# SPDX-License-Identifier: Apache-2.0
"""The types of a run's validity: gates, what they allow, and the verdict. A run that fails a gate is invalid.

The gates themselves are in `sojourn.scoring.gates`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from sojourn.hardware.machine.messages import printable


class Limits(BaseModel):
    """The limits of the gates; all are configurable."""

    model_config = ConfigDict(frozen=True)
    missing_share: float = 0.005  # of the recorder's frames
    unread_share: float = 0.05  # share of recorded frames without a readable strip
    log_apart_s: float = 0.05  # between a frame in the recording and in the player's log
    log_differing: float = 0.01  # share of recorded frames that the player's log does not have so
    stall_ms: float = 20.0  # a second with a longer host stall counts as bad
    stall_share: float = 0.02  # allowed share of bad seconds
    stall_worst_ms: float = 200.0  # maximum in any second
    processor_share: float = 0.5  # with less of the processor time that a run could use, the host was busy
    suspended_ms: float = 10.0  # difference of clocks that include and exclude suspension
    clock_step_ms: float = 10.0  # step of the wall clock within a second; slewing moves it by 0.5 ms
    jitter_ms: float = 2.0  # P99 of the unshaped probe above the configured RTT
    limited_share: float = 0.05  # of a contender's phase, limited by something other than congestion control
    contender_late_s: float = 5.0  # tolerance for the start and end of a contender's flow in its phase
    codepoint_share: float = 0.99  # minimum share of data packets with the expected codepoint
    tail_s: float = 1.0  # tolerance for a record that ends before the last phase
    gap_s: float = 5.0  # longest gap between samples in the timeline
    unshaped_loss: float = 0.01  # of the unshaped probe
    tap_clocks_ms: float = 5.0  # maximum drift between the clocks of captures on two machines
    router_clock_s: float = 0.1  # maximum move of a physical router's clock, with the noise of its samples over ssh
    baseline_stall_s: float = 0.5  # a stall of this length disturbs the solo baseline
    baseline_fps_share: float = 0.95  # minimum share of the film's frame rate in the solo baseline
    call_fps_share: float = 0.84  # for a call: 26 of the camera's 31, with two browsers and recorders on a machine
    baseline_changes: int = 0  # changes of rendition in the solo baseline
    live_changes: int = 2  # the same per minute of a real site, whose player probes the next rung and returns
    live_share: float = 0.8  # minimum share of one rendition in a real site's solo baseline

    def varying(self, varies_ms: float) -> Self:
        """Return the limits for a lab whose path is requested to vary by up to `varies_ms`, ms."""
        return self.model_copy(update={"jitter_ms": self.jitter_ms + varies_ms})


SIMULATED = Limits(missing_share=0.0, jitter_ms=0.05, unshaped_loss=0.0)
"""Limits in simulated time, where no host can be late: anything missing or late is a defect."""


#: What is recorded and what a manifest from elsewhere says may be part of it.
Text = Annotated[str, AfterValidator(printable)]


class Gate(BaseModel):
    """One gate: `measured` and `limit` as text with units; `reason` is one line, empty when `ok`.

    `code` identifies the kind of gate, in kebab-case, and never changes, for programs and tests. `name` is for readers
    and includes the record, end or phase. Scores before 2.3 have no code.
    """

    name: Text
    code: Text = ""
    ok: bool
    measured: Text
    limit: Text
    reason: Text = ""


class Validity(BaseModel):
    """All gates of a run. The run is valid if every gate is ok; scores from elsewhere may also say that it is not."""

    valid: bool
    gates: list[Gate]

    @model_validator(mode="after")
    def _valid_only_by_all_gates(self) -> Self:
        self.valid = self.valid and all(gate.ok for gate in self.gates)
        return self

    @property
    def reasons(self) -> list[str]:
        """Return one reason per failed gate; empty for a valid run, never for an invalid one."""
        failed = [gate.reason or gate.name for gate in self.gates if not gate.ok]
        return failed or ([] if self.valid else ["no gate says why"])

    @property
    def failed(self) -> list[str]:
        """Return the codes of the failed gates, in order; empty for a valid run."""
        return [gate.code for gate in self.gates if not gate.ok]

    @classmethod
    def of(cls, gates: Iterable[Gate]) -> Validity:
        """Judge the gates together."""
        judged = list(gates)
        return cls(valid=all(gate.ok for gate in judged), gates=judged)
