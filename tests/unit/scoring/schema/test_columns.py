# SPDX-License-Identifier: Apache-2.0
"""Tables of a run are read from their files, whatever the folder and the version that recorded them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sojourn.scoring.schema.columns import PROBES


def test_a_folder_is_no_pattern_and_a_column_of_later_versions_is_null(tmp_path: Path) -> None:
    (folder := tmp_path / "runs[1]*").mkdir()
    (folder / "probes.csv").write_text("t_s,probe\n0.5,0\n")
    assert PROBES.read(folder / "probes.csv").equals(pl.DataFrame([(0.5, 0, None)], schema=PROBES, orient="row"))
