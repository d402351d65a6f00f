# SPDX-License-Identifier: Apache-2.0
"""The ports of the measurement's own traffic; filters of the router and of samplers distinguish flows by them."""

from __future__ import annotations

ORIGIN = 443
"""TCP and UDP: the video's origin."""
BULK, LAST_BULK = 5201, 5299
"""TCP: iperf3 at the receiver; further concurrent flows take the next ports."""
PROGRAM, LAST_PROGRAM = 5300, 5399
"""TCP and UDP: the servers of the user's programs. Each flow of a run takes the next, since a closed TCP connection
keeps a port for a while."""
FIRST_SENDER, LAST_SENDER = 40000, 40999
"""TCP: local ports of bulk data, which distinguish it from iperf3's control connections."""
IRTT = 2112
"""UDP: the Not-ECT probe through the bottleneck."""
IRTT_UNSHAPED = 2113
"""UDP: the probe around the bottleneck's queue, which shows the lab's own jitter."""
IRTT_ECT1 = 2114
"""UDP: the ECT(1) probe through the bottleneck."""
PROBE = 2200
"""UDP: probes of a simulated cell; further ones take the next ports."""
RELAY = 5090
"""TCP: where a virtual lab's internet access takes over the client's connections."""
SHORT, LAST_SHORT = 5100, 5199
"""TCP: the servers of short flows; for web users, one port per user."""
RPM_LOAD = 5190
"""TCP: the server of a competing Responsiveness Test."""
RPM = 8444
"""TCP: the server of the foreign probes of --rpm. Captures assign its packets neither to the victim nor to contenders.
"""
TALK = 5150
"""UDP: the listeners of a simulated call and of a competing call, down and up."""
GAME = 5160
"""UDP: the server of a competing game; a game that is the victim has the origin's port."""
SECOND = 8443
"""TCP: the origin of a second video."""
ROOM = 7882
"""UDP: the media of a room's server."""
