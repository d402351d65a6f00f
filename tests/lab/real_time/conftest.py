# SPDX-License-Identifier: Apache-2.0
"""Virtual labs that tests look at together; tests that break a lab make their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sojourn.bottleneck.router import Router
from sojourn.harness.lab.contract import Lab
from tests.lab.real_time.bench import Bench, bench
from tests.lab.virtual import virtual_lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A virtual lab that is up."""
    with virtual_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A virtual lab whose nodes stand for hardware."""
    with bench(tmp_path_factory.mktemp("bench")) as nodes:
        yield nodes


@pytest.fixture
def router(lab: Lab) -> Iterator[Router]:
    """The lab's router, clean before and after."""
    lab.router.clear()
    yield lab.router
    lab.router.clear()
