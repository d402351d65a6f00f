# SPDX-License-Identifier: Apache-2.0
"""TCP and IP counters of the kernels at both ends of a run: the file, and the part that a page shows."""

from __future__ import annotations

import json
from pathlib import Path

COUNTERS = "counters.json"
"""In a run's folder: the name of an end → `sojourn.traffic.nstat.counters` of it."""
#: Counters that show how marks and losses were signalled and answered.
_SHOWN = (
    "IpExtInNoECTPkts", "IpExtInECT1Pkts", "IpExtInECT0Pkts", "IpExtInCEPkts", "Ip6InNoECTPkts", "Ip6InECT1Pkts",
    "Ip6InECT0Pkts", "Ip6InCEPkts", "TcpExtTCPDeliveredCE", "TcpExtDelayedACKs", "TcpExtDelayedACKLocked",
    "TcpExtDelayedACKLost", "TcpExtTCPAckCompressed", "TcpRetransSegs", "TcpExtTCPFastRetrans",
    "TcpExtTCPSlowStartRetrans", "TcpExtTCPLossProbes", "TcpExtTCPLossProbeRecovery", "TcpExtTCPTimeouts",
    "TcpExtTCPSpuriousRTOs", "TcpExtTCPSynRetrans", "TcpExtTCPSackRecovery", "TcpExtTCPLostRetransmit",
    "TcpExtTCPHystartTrainDetect", "TcpExtTCPHystartDelayDetect", "TcpExtListenDrops",
)  # fmt: skip


def shown(run: Path) -> tuple[list[str], list[list[str]]]:
    """Return a run's ends and the rows of a table: a counter and its value at each end; no rows without counters."""
    try:
        counted: dict[str, dict[str, int]] = json.loads((run / COUNTERS).read_text())
    except (OSError, ValueError):
        return [], []
    names = (name for name in _SHOWN if any(name in one for one in counted.values()))
    return list(counted), [[name, *(str(one.get(name, 0)) for one in counted.values())] for name in names]
