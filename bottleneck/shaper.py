# SPDX-License-Identifier: Apache-2.0
"""The bottleneck's rate: HTB on egress, the AQM in its shaped class, a second class for the calibration probe."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from sojourn.bottleneck import units
from sojourn.bottleneck.qdiscs import Qdisc
from sojourn.traffic.ports import IRTT_UNSHAPED

UNSHAPED_BPS = 10_000_000_000
QUANTUM = units.FRAME_BYTES
_ROOT, _SHAPED, _UNSHAPED, _AQM, _PROBE_QUEUE = "1:", "1:10", "1:20", "10:", "20:"
_PROBE_LIMIT = 1000
PROTOCOLS = "ip", "ipv6"
"""The protocols that the probe may use, as tc names them."""
_BURST_S = 0.001
_BURST_LEAST = 2 * QUANTUM


def burst_bytes(rate_bps: int) -> int:
    """Return HTB's burst in bytes: 1 ms of `rate_bps` (bit/s), at least two full frames."""
    return max(_BURST_LEAST, int(rate_bps * _BURST_S / 8))


def _class(dev: str, verb: str, classid: str, rate_bps: int, prio: int) -> list[str]:
    rate, burst = units.format_rate(rate_bps), str(burst_bytes(rate_bps))
    return (
        f"tc class {verb} dev {dev} parent {_ROOT} classid {classid} htb rate {rate} ceil {rate} "
        f"burst {burst} cburst {burst} quantum {QUANTUM} prio {prio}"
    ).split()


def commands(dev: str, rate_bps: int, qdisc: Qdisc, *, unshaped: bool = True, chosen: bool = False) -> list[list[str]]:
    """Return the tc commands that shape the egress of a clean `dev` to `rate_bps` (bit/s) with `qdisc` as queue.

    `unshaped`: the calibration probe gets a class of its own. `chosen`: only packets whose priority is the shaped class
    are shaped, see `sojourn.bottleneck.nat`.
    """
    shaped = [
        f"tc qdisc add dev {dev} root handle {_ROOT} htb default {20 if chosen else 10}".split(),
        _class(dev, "add", _SHAPED, rate_bps, prio=1),
        [*f"tc qdisc add dev {dev} parent {_SHAPED} handle {_AQM}".split(), *qdisc.tc_args()],
    ]
    if not unshaped:
        return shaped
    probe = [
        f"tc filter add dev {dev} parent {_ROOT} protocol {protocol} prio {prio} flower ip_proto udp "
        f"{end} {IRTT_UNSHAPED} classid {_UNSHAPED}"
        for prio, protocol in enumerate(PROTOCOLS, start=1)
        for end in ("dst_port", "src_port")
    ]
    return [
        *shaped,
        _class(dev, "add", _UNSHAPED, UNSHAPED_BPS, prio=0),
        f"tc qdisc add dev {dev} parent {_UNSHAPED} handle {_PROBE_QUEUE} pfifo limit {_PROBE_LIMIT}".split(),
        *(line.split() for line in probe),
    ]


def one_queue(dev: str, host: str) -> list[str]:
    """Return the command that sends all packets to `host` (IPv4) to the first flow queue of the AQM on `dev`."""
    return f"tc filter add dev {dev} parent {_AQM} protocol ip prio 1 flower dst_ip {host} classid {_AQM}1".split()


def teardown_commands(dev: str) -> list[list[str]]:
    """Return the commands that remove the shaper; they fail if there is none."""
    return [f"tc qdisc del dev {dev} root".split()]


def rate_change(dev: str, rate_bps: int) -> list[str]:
    """Return the command that changes the rate (bit/s) of the shaped class under load; the AQM is not touched."""
    return _class(dev, "change", _SHAPED, rate_bps, prio=1)


class RateStep(BaseModel):
    """From `at_s` s after the schedule's start, the rate is `rate_bps` bit/s."""

    model_config = ConfigDict(frozen=True)

    at_s: float
    rate_bps: int
