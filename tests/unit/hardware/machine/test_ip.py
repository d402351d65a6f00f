# SPDX-License-Identifier: Apache-2.0
"""An address of either version stands where a port follows."""

from __future__ import annotations

import pytest

from sojourn.hardware.machine.ip import as_host, ip_version


def test_each_version_is_told_and_stands_before_a_port() -> None:
    assert (ip_version("10.42.1.10"), as_host("10.42.1.10")) == (4, "10.42.1.10")
    assert (ip_version("fd42:1::10"), as_host("fd42:1::10")) == (6, "[fd42:1::10]")
    with pytest.raises(ValueError, match="does not appear to be"):
        ip_version("router")
