# SPDX-License-Identifier: Apache-2.0
"""All endpoints of a transport experiment in one program: its plan, the names of its results, its compilation.

A plan is text with one command per line, times in ns::

    cell LENGTH SAMPLE IP                                              first; time 0 is when the plan is read; 4 or 6
    host NAMESPACE ECN [SS CA]                                         its net.ipv4.tcp_ecn, except for flows' SYNs, and
                                                                       tcp_pacing_ss_ratio and tcp_pacing_ca_ratio
    device NAMESPACE DEVICE OFFLOADS                                   offloads stay or go; waits for the device
    tc NAMESPACE COMMAND / show NAMESPACE COMMAND                      at once; output goes to readback-NAMESPACE
    step TIME NAMESPACE COMMAND                                        tc at that time
    queues NAMESPACE                                                   sampled every second, see below
    flow FROM TO ADDRESS PORT FROM_PORT CONTROL ECN START STOP
    pace RATE                                                          bytes/s: the pacing limit of the flow above
    probe FROM TO ADDRESS PORT TOS FIRST INTERVAL ECHOED               a packet per INTERVAL; ECHOED: round trip
    talk FROM TO ADDRESS PORT TOS PLAIN / burst AT PACKETS BYTES       so many packets with BYTES of payload each; with
                                                                       up to PLAIN bytes, they are Not-ECT
    short FROM TO ADDRESS PORT CONTROL ECN REMEMBER / transfer START BYTES
                                                                       TO requests every short flow from FROM at ADDRESS
    datagrams FROM TO ADDRESS PORT FROM_PORT TOS BYTES GAP START STOP  UDP packets with BYTES of payload, one per GAP
    program FROM TO PORT START STOP RECEIVER<tab>SENDER                a flow by command lines; starts once PORT is open
    counters NAMESPACE FILE                                            FILE's text goes to counters-NAMESPACE at the end
    tap NAMESPACE DEVICE FILE FIRST LAST                               headers of packets to these ports; LAST 0: all

The program prints `ready` when it has read the plan. A line of the result `queues` has the time in s, the namespace and
the output of its `tc -s -d -j qdisc show`.
"""

from __future__ import annotations

from pathlib import Path

from sojourn.hardware import build_tool

MOST = {"flows": 64, "probes": 8, "talks": 8, "taps": 8, "steps": 4096, "spaces": 64, "counters": 256}
"""Limits of one plan; spaces are namespaces."""
HERE = Path(__file__).parent
_DEFINES = tuple(f"-DMOST_{what.upper()}={count}" for what, count in MOST.items())


def digest() -> str:
    """Return the digest of the program's sources and the compiler. Raises BuildError without gcc."""
    return build_tool.program_digest(HERE, _DEFINES)


def ensure_endpoints() -> Path:
    """Return the program, compiled now if it is not in the cache. Raises BuildError if it does not compile."""
    return build_tool.ensure_program("bulk", HERE, _DEFINES)
