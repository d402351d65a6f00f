# SPDX-License-Identifier: Apache-2.0
"""An origin with Prague must send its data as ECT(1); no other origin is judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl

from sojourn.scoring.gates.origins import origin
from sojourn.scoring.packets import pcapng
from sojourn.scoring.validity import Gate, Limits

ECT1, NOT_ECT = 1, 0


def sent(*kinds: tuple[int, int, int, bool]) -> pl.DataFrame:
    """Return an origin's packets from (number, ECN field, payload in bytes, whether they are retransmissions)."""
    rows = [
        {"t_ns": 105 * 10**9, "ecn": ecn, "payload": payload, "resent": resent}
        for number, ecn, payload, resent in kinds
        for _ in range(number)
    ]
    return pl.DataFrame(rows, {**pcapng.SCHEMA, "resent": pl.Boolean})


def judged(packets: pl.DataFrame | None, *, elsewhere: bool = False, **options: str) -> list[Gate]:
    setting = SimpleNamespace(elsewhere=elsewhere, call=None, span=(100.0, 110.0))
    before = None if packets is None else SimpleNamespace(victim=packets)
    run: Any = SimpleNamespace(setting=setting, before=before, options=options, limits=Limits())
    return list(origin(run))


def test_prague_marks_all_data_that_it_sends_for_the_first_time() -> None:
    (passed,) = judged(sent((995, ECT1, 1448, False), (5, NOT_ECT, 1448, False), (400, NOT_ECT, 0, False),
                            (50, NOT_ECT, 1448, True)), origin_cc="prague")  # fmt: skip
    assert passed.ok and "99.5% of 1000" in passed.measured
    for packets in (sent((900, ECT1, 1448, False), (100, NOT_ECT, 1448, False)), sent(), None):
        (failed,) = judged(packets, origin_cc="prague")
        assert not failed.ok and failed.code == "origin-marked"


def test_other_origins_are_not_judged() -> None:
    plain = sent((1000, NOT_ECT, 1448, False))
    assert judged(plain, origin_cc="bbr3") == judged(plain) == judged(plain, elsewhere=True, origin_cc="prague") == []
