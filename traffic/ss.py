# SPDX-License-Identifier: Apache-2.0
"""Samples of a flow's TCP state: `ss -tino` every two seconds to ss.jsonl."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sojourn.hardware.machine import requirements
from sojourn.hardware.machine.periodic import PeriodicSampler
from sojourn.hardware.machine.place import Place
from sojourn.traffic import ports

_END = "=="
_SOCKET = re.compile(r"^ESTAB\s+\d+\s+\d+\s+(?P<local>\S+)\s+(?P<peer>\S+)\s+(?P<rest>.*)$")
_PAIR = re.compile(r"(\w+):(\S+)")
_RATE = re.compile(r"\b(delivery_rate|pacing_rate|send) (\d+)bps")
_DCTCP = re.compile(r"dctcp:\(ce_state:\d+,alpha:(\d+)")
_FLAGS = {"ts", "usec_ts", "sack", "ecn", "ecnseen", "fastopen"}
_MILLISECONDS = re.compile(r"\b(busy|rwnd_limited|sndbuf_limited):(\d+)ms")
_ALPHA_ONE = 1024  # DCTCP and Prague report alpha in 1/1024

COUNTERS = (
    "bytes_sent",
    "bytes_acked",
    "bytes_retrans",
    "bytes_received",
    "delivered",
    "delivered_ce",
    "unacked",
    "notsent",
    "lost",
    "ssthresh",
)

_SENDERS = f"sport ge :{ports.FIRST_SENDER} and sport le :{ports.LAST_SENDER}"
BULK_SENDERS = f"dport ge :{ports.BULK} and dport le :{ports.LAST_BULK} and {_SENDERS}"
"""ss's filter for the bulk data of the main job at a sender, without iperf3's control connections."""


def parse(line: str) -> dict[str, Any] | None:
    """Parse one line of `ss -tinoHO` (iproute2 6 and 7); None for a line without an open socket.

    Times are ms, rates bit/s, cwnd segments, alpha a fraction; alpha is None without DCTCP or Prague. `busy_ms` is the
    time with data to send so far; the two `…_limited_ms` are the parts of it in which a window or buffer of the hosts,
    rather than the congestion window, limited it (tcp_info, RFC 4898). `app_limited`: the data last acknowledged was
    sent when there was no more to send (`tcpi_delivery_rate_app_limited`). A slow writer is app-limited even if some
    data is always in flight, and so is BBR while it probes the RTT, but then with `notsent` bytes waiting.
    """
    socket = _SOCKET.match(line)
    if socket is None:
        return None
    rest = socket["rest"]
    algorithm = next((w for w in rest.split() if ":" not in w and w not in _FLAGS), None)
    pairs = {key: value for key, value in _PAIR.findall(rest)}
    rates = {key: int(value) for key, value in _RATE.findall(rest)}
    rtt, _, rttvar = pairs.get("rtt", "").partition("/")
    _, _, retransmitted = pairs.get("retrans", "0/0").partition("/")
    alpha = _DCTCP.search(rest)
    spent = {key: int(value) for key, value in _MILLISECONDS.findall(rest)}
    return {
        "flow": f"{socket['local']}>{socket['peer']}",
        "cc": algorithm,
        "ecn": " ecn " in f" {rest} ",
        "ecnseen": " ecnseen " in f" {rest} ",
        "app_limited": " app_limited " in f" {rest} ",
        "cwnd": int(pairs.get("cwnd", 0)),
        "mss": int(pairs.get("mss", 0)),
        "rtt_ms": float(rtt) if rtt else None,
        "rttvar_ms": float(rttvar) if rttvar else None,
        "minrtt_ms": float(pairs["minrtt"]) if "minrtt" in pairs else None,
        "delivery_rate_bps": rates.get("delivery_rate", 0),
        "pacing_rate_bps": rates.get("pacing_rate", 0),
        "retrans": int(retransmitted),
        **{name: int(pairs.get(name, 0)) for name in COUNTERS},
        **{f"{name}_ms": spent.get(name, 0) for name in ("busy", "rwnd_limited", "sndbuf_limited")},
        "alpha": int(alpha[1]) / _ALPHA_ONE if alpha else None,
    }


class SsSampler(PeriodicSampler):
    """Writes one line per flow every `interval_s` (s) for all flows that match ss's filter `wanted`.

    It samples rarely: every start of ss occupies a virtual node's core for about 10 ms, which probes would see.
    iperf3's own intervals, four per second, give window and RTT in between. `on_throughput` is called with (Unix s,
    flow, bit/s acknowledged since the last sample), for a live display.
    """

    def __init__(
        self,
        place: Place,
        output: Path,
        wanted: str = BULK_SENDERS,
        interval_s: float = 2.0,
        on_throughput: Callable[[float, str, float], None] | None = None,
    ) -> None:
        script = f"while read -r _; do ss -tinoHO {shlex.quote(wanted)}; echo {_END}; done"
        super().__init__(place, ["sh", "-c", script], output, interval_s)
        self.on_throughput = on_throughput
        self._last: dict[str, tuple[float, int]] = {}

    def sample(self) -> Iterator[bytes]:
        moment, answer = self.ask("", last=f"{_END}\n".encode())
        for line in answer.decode(errors="replace").splitlines():
            flow = parse(line)
            if flow is None:
                continue
            self._report_throughput(moment, flow)
            yield json.dumps({"t": round(moment, 6), "place": self.place.name, **flow}).encode() + b"\n"

    def _report_throughput(self, moment: float, flow: dict[str, Any]) -> None:
        before = self._last.get(flow["flow"])
        self._last[flow["flow"]] = (moment, flow["bytes_acked"])
        if before and self.on_throughput and moment > before[0]:
            self.on_throughput(moment, flow["flow"], 8 * (flow["bytes_acked"] - before[1]) / (moment - before[0]))


def check(place: Place) -> str:
    """Return ss's version at `place`. Raises `ToolError` if it is missing or too old."""
    have = requirements.version(place, ["ss", "-V"], r"iproute2-(\d+\.\d+)", "iproute2")
    requirements.at_least(place, "ss", have, (5, 0), "one line per socket (-O) requires iproute2 5.0")
    return ".".join(map(str, have))
