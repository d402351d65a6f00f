# SPDX-License-Identifier: Apache-2.0
"""The ports of the measurement's own traffic; filters of the router and of samplers tell flows apart by them."""

from __future__ import annotations

ORIGIN = 443
"""TCP and UDP: where the video's origin answers."""
BULK, LAST_BULK = 5201, 5299
"""TCP: iperf3 at the receiver; further flows at once take the next ones."""
FIRST_SENDER, LAST_SENDER = 40000, 40999
"""TCP: local ports of bulk data, which tell it from iperf3's control connections."""
IRTT = 2112
"""UDP: the Not-ECT probe through the bottleneck."""
IRTT_UNSHAPED = 2113
"""UDP: the probe past the bottleneck's queue, which shows the lab's own jitter."""
IRTT_ECT1 = 2114
"""UDP: the ECT(1) probe through the bottleneck."""
PROBE = 2200
"""UDP: probes of a simulated cell; further ones take the next ports."""
RELAY = 5090
"""TCP: where a virtual lab's way out takes over the client's connections."""
SHORT, LAST_SHORT = 5100, 5199
"""TCP: where short flows go; of web users the one where each fetches."""
TALK = 5150
"""UDP: where the talkers of a simulated call, and of one that competes, are heard, down and up."""
SECOND = 8443
"""TCP: where the origin of a second video answers."""
