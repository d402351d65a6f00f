# SPDX-License-Identifier: Apache-2.0
"""All endpoints of a transport experiment in one program: its plan's lines, its results' names, its compilation.

A plan is text, one line each, times in ns::

    cell LENGTH SAMPLE IP                                              first; time 0 is when the plan is read; 4 or 6
    host NAMESPACE ECN [SS CA]                                         its net.ipv4.tcp_ecn but for flows' own SYNs, and
                                                                       tcp_pacing_ss_ratio and tcp_pacing_ca_ratio
    device NAMESPACE DEVICE OFFLOADS                                   segmentation offloads stay or go; waits for it
    tc NAMESPACE COMMAND / show NAMESPACE COMMAND                      now; answers go to readback-NAMESPACE
    step TIME NAMESPACE COMMAND                                        tc, at that time
    queues NAMESPACE                                                   sampled each second, see below
    flow FROM TO ADDRESS PORT FROM_PORT CONTROL ECN START STOP
    pace RATE                                                          bytes/s: the most that the flow above sends
    probe FROM TO ADDRESS PORT TOS FIRST INTERVAL ECHOED               one packet each time; delays there, or and back
    talk FROM TO ADDRESS PORT TOS FIRST INTERVAL BYTES EVERY KEY       a frame each time, each EVERYth of KEY bytes
    short FROM TO ADDRESS PORT CONTROL ECN REMEMBER / transfer START BYTES
                                                                       TO asks FROM, at ADDRESS, for each short flow
    datagrams FROM TO ADDRESS PORT FROM_PORT TOS BYTES GAP START STOP  UDP packets of BYTES of payload, one each GAP
    program FROM TO PORT START STOP RECEIVER<tab>SENDER                a flow by command lines; begun once PORT is open
    counters NAMESPACE FILE                                            its text goes to counters-NAMESPACE at the end
    tap NAMESPACE DEVICE FILE FIRST LAST                               headers of packets to these ports; LAST 0: of all

The program says `ready` when it has read the plan. A line of the result `queues` has the time in s, the namespace and
what its `tc -s -d -j qdisc show` said.
"""

from __future__ import annotations

from pathlib import Path

from sojourn.hardware import build_tool

MOST = {"flows": 64, "probes": 8, "talks": 8, "taps": 8, "steps": 4096, "spaces": 64, "counters": 256}
"""How many there may be of what in one plan; spaces are namespaces."""
HERE = Path(__file__).parent
_DEFINES = tuple(f"-DMOST_{what.upper()}={count}" for what, count in MOST.items())


def digest() -> str:
    """Name what the program is made from: its sources and the compiler. Raises BuildError when there is no gcc."""
    return build_tool.program_digest(HERE, _DEFINES)


def ensure_endpoints() -> Path:
    """The program, compiled now if the cache does not have it. Raises BuildError when it does not compile."""
    return build_tool.ensure_program("bulk", HERE, _DEFINES)
