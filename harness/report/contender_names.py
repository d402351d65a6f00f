# SPDX-License-Identifier: Apache-2.0
"""The display names of contenders: what the field calls a congestion control, where options have `cubic-noecn`."""

from __future__ import annotations

import re

#: By the name of an option or a cell; unknown ones are shown as they are.
_NAMES = {
    "bbr": "BBR", "bbr2": "BBRv2", "bbr3": "BBRv3", "bic": "BIC", "cdg": "CDG", "cubic": "CUBIC", "dctcp": "DCTCP",
    "highspeed": "HighSpeed", "htcp": "H-TCP", "hybla": "Hybla", "illinois": "Illinois", "ledbat": "LEDBAT",
    "lp": "TCP-LP", "newreno": "NewReno", "nv": "TCP-NV", "prague": "Prague", "reno": "Reno",
    "scalable": "Scalable TCP",
    "scream": "SCReAM", "scream2": "SCReAM v2", "vegas": "Vegas", "veno": "Veno", "webrtc": "WebRTC",
    "westwood": "Westwood", "yeah": "YeAH",
}  # fmt: skip
_OVER = {"quic": "QUIC", "udp": "UDP"}
_MODES = {"accecn": "AccECN", "noecn": "no ECN", "sce": "SCE", "2020": "of 2020"}
_CONTENDER = re.compile(rf"(?:({'|'.join(_OVER)})-)?({'|'.join(_NAMES)})(?:-({'|'.join(_MODES)}))?")


def display_name(contender: str) -> str:
    """Return the display name of a contender: `CUBIC (no ECN)` of `cubic-noecn`; other texts are returned unchanged."""
    match = _CONTENDER.fullmatch(contender)
    if not match:
        return contender
    over, name, mode = match.groups()
    return _NAMES[name] + (f" over {_OVER[over]}" if over else "") + (f" ({_MODES[mode]})" if mode else "")
