# SPDX-License-Identifier: Apache-2.0
"""Scores of a cell's run from its files."""

from __future__ import annotations

from pathlib import Path

from sojourn.bottleneck.cell import Cell
from sojourn.scoring.cell_tables import TABLES
from sojourn.scoring.media_phases import media_phases
from sojourn.scoring.protection import protection_scores
from sojourn.scoring.schema.cell_scores import CellScores
from sojourn.scoring.sound.cell_tones import neteq_scores, tone_scores
from sojourn.scoring.transport.cell_scores import score
from sojourn.scoring.transport.frames import CellFrames


def score_cell(cell: Cell, folder: Path, *, window_s: float, tail_s: float) -> CellScores:
    """Return the scores of a run of `cell` in `folder`; the window is that of `sojourn.scoring.transport.cell_scores`.

    Raises polars' and json's errors for damaged files.
    """
    frames = CellFrames.read(folder)
    scores = score(cell, frames, window_s=window_s, tail_s=tail_s)
    if protection := protection_scores(frames.queues, scores.window_s):
        scores = scores.model_copy(update={"protection": protection})
    sent, pictures = (TABLES[name].read(folder) for name in ("crossings", "pictures"))
    if media := media_phases(cell, frames.flows, frames.packets if sent is None else sent, pictures):
        scores = scores.model_copy(update={"media": media})
    for name, figures in (("tones", tone_scores), ("neteq", neteq_scores)):
        if scores.call and (table := TABLES[name].read(folder)) is not None:
            by_way = figures(table, scores.window_s)
            call = [way.model_copy(update=of_way) for way, of_way in zip(scores.call, by_way, strict=True)]
            scores = scores.model_copy(update={"call": call})
    return scores
