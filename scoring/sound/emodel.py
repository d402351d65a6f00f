# SPDX-License-Identifier: Apache-2.0
"""The E-model (ITU-T G.107, 06/2015): predicts how a telephone conversation is rated, from its delay and loss.

G.107.1 (06/2019) is its version for wideband speech. The equations here are those of G.107, and of G.107.1 as two
independent implementations cite them, sipnab (`rtp/emodel_wb.rs`) and loom (`core/quality/emodel`), which agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log2, log10, sqrt


@dataclass(frozen=True)
class EModelInputs:
    """The model's inputs, with the names and default values of G.107, table 2; levels in dB, delays in ms.

    `t_ms` and `tr_ms` are the delays of echo paths; `ta_ms` is the absolute delay of an echo-free connection, `ppl` the
    loss in percent, `bpl` the codec's robustness to it, `burst_r` the mean length of bursts of loss over that of
    random loss.
    """

    slr: float = 8
    rlr: float = 2
    stmr: float = 15
    lstr: float = 18
    ds: float = 3
    telr: float = 65
    wepl: float = 110
    t_ms: float = 0
    tr_ms: float = 0
    ta_ms: float = 0
    qdu: float = 1
    ie: float = 0
    bpl: float = 4.3
    ppl: float = 0
    burst_r: float = 1
    nc: float = -70
    nfor: float = -64
    ps: float = 35
    pr: float = 35
    a: float = 0


#: From which delay on a conversation suffers, ms, and the sensitivity, of G.107's default class.
_MT_MS, _ST = 100.0, 1.0
#: R of perfect wideband speech (G.107.1, eq. 7-2), and the length of its scale over the narrowband one (eq. 7-13, A-1).
_RO_WB, _SCALE_WB = 129.0, 1.29


def rating(it: EModelInputs) -> float:
    """Return the transmission rating factor R (G.107, 7.1): 93.2 by default, 0 at worst, below which MOS is 1."""
    noise = _noise(it)
    ratio = 15 - 1.5 * (it.slr + noise)
    return max(0.0, ratio - _simultaneous(it, ratio, noise) - _delay(it, ratio, noise) - equipment(it) + it.a)


def mos(r: float) -> float:
    """Return the mean opinion score in conversation that R stands for (G.107, annex B), from 1 to 4.5."""
    if r <= 0:
        return 1.0
    return 4.5 if r >= 100 else max(1.0, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6)


def wideband_rating(it: EModelInputs) -> float:
    """Return R of wideband speech without talker echo (G.107.1, eq. 7-1 to 7-4 and 7-11 to 7-15): 128.8 by default.

    It is at least 0. It uses `ta_ms`, `tr_ms`, `wepl`, `ie`, `bpl`, `ppl` and `a`; bursts of loss count as random loss
    (eq. 7-15). `ie` and `bpl` are those of G.113 for wideband. R of both models cannot be compared.
    """
    delay = _listener_echo(it, _RO_WB) + _SCALE_WB * _absolute(it.ta_ms)
    return max(0.0, _RO_WB - delay - equipment(replace(it, burst_r=1)) + it.a)


def wideband_mos(r: float) -> float:
    """Return the mean opinion score that R of wideband speech stands for (G.107.1, annex A), from 1 to 4.5."""
    return mos(r / _SCALE_WB)


def equipment(it: EModelInputs) -> float:
    """Return the effective equipment impairment factor of a codec with loss (G.107, 7.5)."""
    return it.ie + (95 - it.ie) * it.ppl / (it.ppl / it.burst_r + it.bpl) if it.ppl else it.ie


def burst_ratio(lost: Sequence[bool]) -> float:
    """Return the mean length of bursts of loss, over that of random loss of the same share (G.107, 7.5).

    From 1 to 2, the range that table 2 permits. It permits 20 % of loss; where more is lost, the random loss is that of
    20 %, since its bursts have no length at 100 %.
    """
    count = sum(lost)
    bursts = sum(here and not before for before, here in zip([False, *lost[:-1]], lost, strict=True))
    return min(2.0, max(1.0, count / bursts * max(0.8, 1 - count / len(lost)))) if count else 1.0


def _sum(*levels_db: float) -> float:
    return 10 * log10(sum(10 ** (level / 10) for level in levels_db))


def _noise(it: EModelInputs) -> float:
    """Return the sum of all noise, at the 0 dBr point (7.2)."""
    olr = it.slr + it.rlr
    sender = it.ps - it.slr - it.ds - 100 + 0.004 * (it.ps - olr - it.ds - 14) ** 2
    room = it.pr + 10 * log10(1 + 10 ** ((10 - it.lstr) / 10))
    receiver = it.rlr - 121 + room + 0.008 * (room - 35) ** 2
    return _sum(it.nc, sender, receiver, it.nfor + it.rlr)


def _sidetone(it: EModelInputs) -> float:
    return -10 * log10(10 ** (-it.stmr / 10) + exp(-it.t_ms / 4) * 10 ** (-it.telr / 10))


def _simultaneous(it: EModelInputs, ratio: float, noise: float) -> float:
    """Return what impairs at the same time as speech: too loud, sidetone, quantisation (7.3)."""
    loud = it.slr + it.rlr + 0.2 * (64 + noise - it.rlr)
    too_loud: float = 20 * ((1 + (loud / 8) ** 8) ** (1 / 8) - loud / 8)
    stmr = _sidetone(it)
    sidetone: float = (
        12 * (1 + ((stmr - 13) / 6) ** 8) ** (1 / 8)
        - 28 * (1 + ((stmr + 1) / 19.4) ** 35) ** (1 / 35)
        - 13 * (1 + ((stmr - 3) / 33) ** 13) ** (1 / 13)
        + 29
    )
    q = 37 - 15 * log10(it.qdu)
    g = 1.07 + 0.258 * q + 0.0602 * q**2
    y, z = (ratio - 100) / 15 + 46 / 8.4 - g / 9, 46 / 30 - g / 40
    quantisation: float = 15 * log10(1 + 10**y + 10**z)
    return too_loud + sidetone + quantisation


def _delay(it: EModelInputs, ratio: float, noise: float) -> float:
    """Return what comes late: talker echo, listener echo, and the absolute delay (7.4)."""
    telr = it.telr - 40 * log10((1 + it.t_ms / 10) / (1 + it.t_ms / 150)) + 6 * exp(-0.3 * it.t_ms**2)
    talker = _difference(-1.5 * (noise - it.rlr), 80 + 2.5 * (telr - 14), 100) - 1
    return talker * (1 - exp(-it.t_ms)) + _listener_echo(it, ratio) + _absolute(it.ta_ms)


def _listener_echo(it: EModelInputs, ratio: float) -> float:
    return _difference(ratio, 10.5 * (it.wepl + 7) * (it.tr_ms + 1) ** -0.25, 169)


def _absolute(ta_ms: float) -> float:
    if ta_ms <= _MT_MS:
        return 0.0
    x, power = log2(ta_ms / _MT_MS), 6 * _ST
    late: float = 25 * ((1 + x**power) ** (1 / power) - 3 * (1 + (x / 3) ** power) ** (1 / power) + 2)
    return late


def _difference(one: float, other: float, bend: float) -> float:
    return (one - other) / 2 + sqrt((one - other) ** 2 / 4 + bend)
