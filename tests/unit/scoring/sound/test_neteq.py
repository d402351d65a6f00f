# SPDX-License-Identifier: Apache-2.0
"""NetEq's counters as shares of its samples."""

from __future__ import annotations

import pytest

from sojourn.scoring.sound.neteq import neteq_log, neteq_within


def second(t: float, concealed: int | None) -> dict[str, object]:
    sound = {
        "totalSamplesReceived": 48_000 * int(t),
        "jitterBufferDelay": 0.03 * 48_000 * int(t),
        "jitterBufferEmittedCount": 48_000 * int(t),
        "concealedSamples": concealed,
        "removedSamplesForAcceleration": 480,
    }
    return {"t": t, "event": "call", "detail": {"sound": sound}}


def test_the_counters_grow_within_the_windows_and_one_that_is_never_reported_is_unknown() -> None:
    log = neteq_log([second(t, 480 * max(0, t - 10)) for t in range(20)])
    assert log is not None
    before, after = neteq_within(log, [(0.0, 10.0)]), neteq_within(log, [(10.0, 19.0)])
    assert before.pop("neteq_buffer_ms") == pytest.approx(30)
    assert before == {"neteq_concealed_share": 0, "neteq_stretched_share": None, "neteq_shortened_share": 0}
    assert after["neteq_concealed_share"] == pytest.approx(0.01)


def test_a_call_without_sound_has_no_counters() -> None:
    assert neteq_log([{"t": 1.0, "event": "call", "detail": {}}, {"t": 2.0, "event": "camera", "detail": []}]) is None
