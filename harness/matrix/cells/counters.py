# SPDX-License-Identifier: Apache-2.0
"""What the kernels of a run's ends counted of TCP and IP: its file, and what a page shows of it."""

from __future__ import annotations

import json
from pathlib import Path

COUNTERS = "counters.json"
"""In a run's folder: the name of an end → `sojourn.traffic.nstat.counters` of it."""
#: What tells how marks and losses were heard of and answered.
_SHOWN = (
    "IpExtInNoECTPkts", "IpExtInECT1Pkts", "IpExtInECT0Pkts", "IpExtInCEPkts", "Ip6InNoECTPkts", "Ip6InECT1Pkts",
    "Ip6InECT0Pkts", "Ip6InCEPkts", "TcpExtTCPDeliveredCE", "TcpExtDelayedACKs", "TcpExtDelayedACKLocked",
    "TcpExtDelayedACKLost", "TcpExtTCPAckCompressed", "TcpRetransSegs", "TcpExtTCPFastRetrans",
    "TcpExtTCPSlowStartRetrans", "TcpExtTCPLossProbes", "TcpExtTCPLossProbeRecovery", "TcpExtTCPTimeouts",
    "TcpExtTCPSpuriousRTOs", "TcpExtTCPSynRetrans", "TcpExtTCPSackRecovery", "TcpExtTCPLostRetransmit",
    "TcpExtTCPHystartTrainDetect", "TcpExtTCPHystartDelayDetect", "TcpExtListenDrops",
)  # fmt: skip


def shown(run: Path) -> tuple[list[str], list[list[str]]]:
    """Return the ends of a run and rows of a table: a counter and its value at each; no rows without any."""
    try:
        counted: dict[str, dict[str, int]] = json.loads((run / COUNTERS).read_text())
    except (OSError, ValueError):
        return [], []
    names = (name for name in _SHOWN if any(name in one for one in counted.values()))
    return list(counted), [[name, *(str(one.get(name, 0)) for one in counted.values())] for name in names]
