# SPDX-License-Identifier: Apache-2.0
"""The filters of the queues of a simulated cell, which complete the commands of its job. Pure."""

from __future__ import annotations

from sojourn.bottleneck import readback
from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix.cells.guest import queues
from sojourn.harness.matrix.cells.guest.network import hop_name


def with_filters(cell: Cell, job: str) -> str:
    """Return the script of a cell with the filters of its queues and their read-back.

    The plan of a cell without them stays as it is, to the byte: the stamps of published tables have what writes it.
    """
    for n, hop in enumerate(cell.hops):
        space = hop_name(n)
        filters = [
            f"tc {space} {' '.join(command[1:])}\n"
            for dev, way in (("lan", hop.down), ("wan", hop.up))
            for command in (readback.queue_filters(dev, way.qdisc) if way else ())
        ]
        if not filters:
            continue
        devices = queues.shown(cell, space)
        shows = "".join(f"show {space} {query}\n" for query in readback.queries(*devices))
        more = "".join(f"show {space} {query}\n" for query in readback.filter_queries(*devices))
        before, found, after = job.partition(shows)
        if not found:
            raise AssertionError(f"the plan does not read back {space}")
        job = "".join([before, *filters, shows, more, after])
    return job
