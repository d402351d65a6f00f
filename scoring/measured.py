# SPDX-License-Identifier: Apache-2.0
"""Which figures in the document of a cell's run were measured: without a flow down, its rates are 0 there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_OF_FLOWS_DOWN = re.compile(r"utilisation|periods\.\d+\.(goodput_mbps|utilisation)")


def is_measured(document: Mapping[str, Any], address: str) -> bool:
    """Return whether a run measured the figure at an address, as pages, tables and summaries show it."""
    flows = document.get("flows")
    if not isinstance(flows, list) or not _OF_FLOWS_DOWN.fullmatch(address):
        return True
    return any(isinstance(flow, Mapping) and not flow.get("up") for flow in flows)
