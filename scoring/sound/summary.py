# SPDX-License-Identifier: Apache-2.0
"""The sound of a call inside windows of time: its fields of Metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from sojourn.scoring.packets import latency
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.sound.ear import TONE_S, Sound
from sojourn.scoring.sound.emodel import EModelInputs, burst_ratio, mos, rating, wideband_mos, wideband_rating

INTERACTIVE_MS, IN_TIME_MS = 150.0, 400.0
"""ITU-T G.114 (05/2003): below the first delay, most applications do not suffer; the second is the planning limit."""
SOUND_FIRST_MS, PICTURE_FIRST_MS = 45.0, -125.0
"""ITU-R BT.1359-1 (1998): viewers detect sound that is this much ahead of the picture, or (negative) behind it."""
IE, BPL = 0.0, 25.1
"""Assumed of Opus, for which ITU-T G.113 has no values: no impairment without loss, and the robustness that G.113
(11/2007), appendix I, gives to G.711 with concealment."""
IE_WB, BPL_WB = 0.0, 4.9
"""The same for wideband speech, with the robustness that G.113 (09/2024), table IV.4, gives to AMR-WB at its highest
rate."""


def sound_fields(sound: Sound, pictures: pl.DataFrame | None, windows: Sequence[Window]) -> dict[str, Any]:
    """Return the fields of Metrics of what was heard; `pictures` has the delays of a call's frames."""
    spoken = latency.within(sound.tones, list(windows))
    ear = latency.within(sound.ear, list(windows))
    values: dict[str, Any] = {}
    if ear.height:
        values |= {"ear_gap_share": ear["gap"].mean(), "ear_repeated_share": ear["repeated"].mean()}
    if not spoken.height:
        return values
    delay, heard = spoken["delay_ms"], spoken.drop_nulls("delay_ms")
    lost = delay.is_null()
    values |= {
        "ear_p50_ms": latency.percentile(spoken, 50, "delay_ms"),
        "ear_p95_ms": latency.percentile(spoken, 95, "delay_ms"),
        "ear_heard_p95_ms": latency.percentile(heard, 95, "delay_ms"),
        "ear_loss": lost.mean(),
        "ear_interactive": (delay <= INTERACTIVE_MS).sum() / spoken.height,
        "ear_in_time": (delay <= IN_TIME_MS).sum() / spoken.height,
    }
    inputs = {
        "ta_ms": float(heard["delay_ms"].mean() or 0.0),  # type: ignore[arg-type]
        "ppl": 100 * float(lost.mean()),  # type: ignore[arg-type]
        "burst_r": burst_ratio(lost.to_list()),
        "ie": IE,
        "bpl": BPL,
    }
    r = rating(EModelInputs(**inputs))
    wide = wideband_rating(EModelInputs(**{**inputs, "ie": IE_WB, "bpl": BPL_WB}))
    values |= {"r_factor": r, "mos_cqe": mos(r), "e_model": inputs}
    values |= {"r_factor_wb": wide, "mos_cqe_wb": wideband_mos(wide)}
    if pictures is not None:
        values |= _lip_sync(heard, latency.within(pictures, list(windows)))
    return values


def _lip_sync(heard: pl.DataFrame, pictures: pl.DataFrame) -> dict[str, Any]:
    """Return the lead of the sound over pictures captured at the same time: positive where the sound is ahead."""
    pairs = (
        pictures.drop_nulls()
        .rename({"delay_ms": "picture_ms"})
        .sort("t")
        .join_asof(heard.sort("t"), on="t", strategy="backward", tolerance=TONE_S, check_sortedness=False)
        .drop_nulls()
    )
    lead = pairs["picture_ms"] - pairs["delay_ms"]
    if lead.is_empty():
        return {}
    within = lead.is_between(PICTURE_FIRST_MS, SOUND_FIRST_MS)
    return {"lip_sync_p50_ms": lead.median(), "lip_sync_in_limits": within.mean()}
