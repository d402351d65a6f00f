# SPDX-License-Identifier: Apache-2.0
"""Pantheon's schemes: three flows of one, 10 s apart, 30 s, over a link like the cellular one that it was run on."""

from __future__ import annotations

from harness.matrix import dumbbell
from harness.matrix.cases import matrix_tests
from harness.matrix.cell import Cell
from harness.matrix.matrix import Chart, Column, Matrix, Reference
from bottleneck.slots import Slots
from scoring import published
from traffic.contender import CONTENDERS
from traffic.program import PROGRAMS
def cell(cc, path):
    return Cell(name=f"{cc}-{path}", flows=dumbbell.flows([cc]*3, 46, gap_s=10), seconds=30, per_packet=True,
      hops=(dumbbell.slotted(Slots(mean_mbps=12.6), "pfifo limit 600") if path=="slots" else dumbbell.bottleneck(12,"pfifo limit 600"),))
MATRIX = Matrix(name="pantheon", title="x", window_s=10, cells=tuple(cell(c,p) for p in ("slots","fixed") for c in (*CONTENDERS,*PROGRAMS)))
