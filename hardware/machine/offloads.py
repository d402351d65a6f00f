# SPDX-License-Identifier: Apache-2.0
"""Segmentation offloads of network interfaces: with offloads, a capture shows packets that were never on the wire."""

from __future__ import annotations

import re

from sojourn.hardware.machine.place import CommandError, Place

_OFFLOADS = {
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
}


def offloads_on(place: Place, *devices: str) -> list[str] | None:
    """Return the segmentation offloads that are on (`lan: gro`); None without ethtool.

    Raises `sojourn.hardware.machine.place.CommandError`.
    """
    on = []
    for dev in devices:
        try:
            features = place.run(["ethtool", "-k", dev])
        except CommandError as failed:
            if failed.returncode in (None, 127):
                return None
            raise
        states = dict(re.findall(r"^([\w-]+): (on|off)", features, re.MULTILINE))
        on += [f"{dev}: {short}" for name, short in _OFFLOADS.items() if states.get(name) == "on"]
    return on
