# SPDX-License-Identifier: Apache-2.0
"""TCP Prague on a bulk host with Debian's own kernel, by DKMS and by BPF: the tests of the built-in Prague."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.stock import Stock, ensure_stock
from tests.lab.test_prague_window import check_law, check_wire, window

# Not for CI: Debian is installed for it, and an emulated second takes three.
pytestmark = [pytest.mark.lab, pytest.mark.nightly]


@pytest.fixture(params=["dkms", "bpf"])
def stock(request: pytest.FixtureRequest, tmp_path: Path) -> Stock:
    return Stock(ensure_stock(), tmp_path, request.param)


def test_window_follows_the_inverse_of_the_marking_probability(stock: Stock) -> None:
    shown = stock.variant == "dkms"
    # Not 1 %: some hundred million emulated instructions for each second.
    check_law({p: window(stock, p, 20, alpha_shown=shown) for p in (0.02, 0.05, 0.2)}, 20)


def test_wire_shows_accurate_ecn_and_ect1(stock: Stock) -> None:
    check_wire(stock, "fq_codel")
