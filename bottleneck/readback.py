# SPDX-License-Identifier: Apache-2.0
"""Compare a router's state with the requested configuration. Pure: the router's JSON is passed in as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from sojourn.bottleneck import shaper
from sojourn.bottleneck.impairment import Impairment
from sojourn.bottleneck.qdiscs import Filter, Qdisc
from sojourn.bottleneck.spec import IFB_DOWN, IFB_UP, Bottleneck, Direction
from sojourn.traffic.ports import IRTT_UNSHAPED

Objects = list[dict[str, Any]]
QUEUE = "10:"
"""The handle of the queue under test."""
SHAPED = "1:10"
"""The class whose rate is that of the bottleneck."""
#: What tc has among its JSON for the options of a qdisc for which it has no code.
_UNKNOWN_OPTIONS = re.compile(r"\[Unknown qdisc, optlen=\d+\] ?")


class ReadbackError(RuntimeError):
    """The router's configuration differs from the requested one; the message has every difference."""

    def __init__(self, differences: list[str]) -> None:
        self.differences = differences
        super().__init__("the router's configuration differs from the requested one: " + "; ".join(differences))


@dataclass(frozen=True)
class State:
    """A router's `tc -d -j … show`: qdiscs of all interfaces; classes, egress and ingress filters by interface.

    Filters of the queue under test only if they were queried.
    """

    qdiscs: Objects
    classes: dict[str, Objects]
    filters: dict[str, Objects]
    ingress: dict[str, Objects]
    queue_filters: dict[str, Objects] = field(default_factory=dict)


def queries(*devices: str) -> list[str]:
    """Return the lines for `tc -d -j -batch -` whose answers `state` reads in this order, before `filter_queries`."""
    lines = ["qdisc show"]
    for dev in devices:
        lines += [f"class show dev {dev}", f"filter show dev {dev}", f"filter show dev {dev} parent ffff:"]
    return lines


def filter_queries(*devices: str) -> list[str]:
    """Return the further lines, in the same order, for the filters of the queues under test."""
    return [f"filter show dev {dev} parent {QUEUE}" for dev in devices]


def queue_filters(dev: str, queue: Qdisc) -> list[list[str]]:
    """Return the commands that complete a new queue under test on `dev`."""
    return [one.command(dev, QUEUE) for one in queue.filters(QUEUE)]


def state(answers: str, *devices: str) -> State:
    """Parse the answers to `queries` of the same devices. Raises ValueError if they are not JSON, or not one answer per
    command.
    """
    try:
        lists = list(json_values(answers))
    except RecursionError as error:
        raise ValueError("incomplete JSON") from error
    usual, more = len(queries(*devices)), len(filter_queries(*devices))
    if len(lists) not in (usual, usual + more):
        raise ValueError(f"tc gave {len(lists)} answers, expected {usual}")
    if not all(isinstance(answer, list) for answer in lists):
        raise ValueError("an answer is not a list")
    qdiscs, rest = lists[0], iter(lists[1:])
    parts = {dev: (next(rest), next(rest), next(rest)) for dev in devices}
    return State(
        qdiscs=qdiscs,
        classes={dev: part[0] for dev, part in parts.items()},
        filters={dev: part[1] for dev, part in parts.items()},
        ingress={dev: part[2] for dev, part in parts.items()},
        queue_filters=dict(zip(devices, rest, strict=False)),
    )


def json_values(text: str) -> Iterator[Any]:
    """Yield the concatenated JSON values of tc's answers; options of a qdisc that tc does not know are empty there."""
    text, decoder, at = _UNKNOWN_OPTIONS.sub("", text), json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        yield value


def differences(
    requested: Bottleneck, state: State, lan: str = "lan", wan: str = "wan", only: Sequence[str] = ()
) -> list[str]:
    """Return one line per difference between the router and `requested`; empty if there is none.

    `only` as in the set-up. Raises ValueError if tc's output cannot be interpreted.
    """
    chosen = bool(only)
    with _understood():
        return [
            *shaped(lan, requested.down, state, chosen=chosen),
            *shaped(wan, requested.up, state, chosen=chosen),
            *delayed(wan, IFB_DOWN, requested.down.path, state),
            *delayed(lan, IFB_UP, requested.up.path, state, only),
        ]


def leftovers(state: State, lan: str = "lan", wan: str = "wan") -> list[str]:
    """Return one line per shaper, delay or ingress hook that is left after clean-up.

    Raises ValueError if tc's output cannot be interpreted.
    """
    with _understood():
        ours = [q for q in state.qdiscs if q["dev"] in (IFB_DOWN, IFB_UP)]
        ours += [q for q in state.qdiscs if q["dev"] in (lan, wan) and q["kind"] in ("htb", "ingress")]
        return [f"{q['dev']}: {q['kind']} {q['handle']} is still there" for q in ours]


def foreign(state: State, *devices: str) -> list[tuple[str, str]]:
    """Return every qdisc on these interfaces that somebody has configured, with the command that removes it.

    The kernel's default qdiscs have no handle. Raises ValueError if tc's output cannot be interpreted.
    """
    with _understood():
        there = [q for q in state.qdiscs if q["dev"] in devices and q["handle"] != "0:"]
        return [
            (
                f"{q['dev']}: {q['kind']} {q['handle']}",
                f"tc qdisc del dev {q['dev']} {'root' if at_root else q['kind']}",
            )
            for q in there
            if (at_root := q.get("root")) or q["kind"] in ("ingress", "clsact")
        ]


@contextmanager
def _understood() -> Iterator[None]:
    """A different tc may print the same things in a different structure."""
    try:
        yield
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"cannot interpret the output of tc -j: {error!r}") from error


def _qdisc(state: State, dev: str, handle: str) -> dict[str, Any]:
    return next((q for q in state.qdiscs if q["dev"] == dev and q["handle"] == handle), {})


def _placed(dev: str, state: State, handle: str, kind: str, parent: str | None) -> list[str]:
    qdisc = _qdisc(state, dev, handle)
    where = f"below {parent}" if parent else "as root"
    right_place = qdisc.get("root", False) if parent is None else qdisc.get("parent") == parent
    if qdisc.get("kind") == kind and right_place:
        return []
    have = [f"{q['kind']} {q['handle']} {q.get('parent', 'root')}" for q in state.qdiscs if q["dev"] == dev]
    return [f"{dev}: requested {kind} {handle} {where}, found {', '.join(have) or 'no qdisc'}"]


def shaped(dev: str, requested: Direction, state: State, *, unshaped: bool = True, chosen: bool = False) -> list[str]:
    """Return the differences of the shaper and its queue at the egress of `dev`; `unshaped` and `chosen` as in the
    set-up.
    """
    lines = _placed(dev, state, "1:", "htb", None) + _placed(dev, state, "10:", requested.qdisc.kind, "1:10")
    if lines:
        return lines
    root, queue = _qdisc(state, dev, "1:"), _qdisc(state, dev, "10:")
    default = "0x20" if chosen else "0x10"
    if root["options"].get("default") != default:
        lines.append(f"{dev}: requested htb default {default}, found {root['options'].get('default')}")
    lines += [f"{dev}: {requested.qdisc.kind} {line}" for line in requested.qdisc.differences(queue.get("options", {}))]
    lines += unfiltered(dev, requested.qdisc, requested.qdisc.filters(QUEUE), state)
    rates = {SHAPED: requested.rate_bps, **({"1:20": shaper.UNSHAPED_BPS} if unshaped else {})}
    for handle, rate in rates.items():
        lines += rated(dev, handle, rate, state.classes[dev])
    if not unshaped:
        return lines
    filters = [f for f in state.filters[dev] if f.get("options", {}).get("classid") == "1:20"]
    keys = [(f.get("protocol"), f["options"].get("keys", {})) for f in filters]
    for protocol, end in product(shaper.PROTOCOLS, ("dst_port", "src_port")):
        if (protocol, {"ip_proto": "udp", end: IRTT_UNSHAPED}) not in [
            (of, {k: v for k, v in key.items() if k in ("ip_proto", "dst_port", "src_port")}) for of, key in keys
        ]:
            lines.append(f"{dev}: requested {protocol} UDP {end} {IRTT_UNSHAPED} to class 1:20, found no such filter")
    return lines + _placed(dev, state, "20:", "pfifo", "1:20")


def rated(dev: str, handle: str, rate_bps: int, classes: Objects) -> list[str]:
    """Return the differences of a class of the shaper on `dev` from one of `rate_bps`; `classes` are all of `dev`."""
    have = next((c for c in classes if c.get("class") == "htb" and c["handle"] == handle), {})
    lines = []
    for key, want in (("rate", rate_bps // 8), ("ceil", rate_bps // 8), ("quantum", shaper.QUANTUM)):
        if have.get(key) != want:
            lines.append(f"{dev}: class {handle} {key}: requested {want}, found {have.get(key, 'nothing')}")
    # HTB keeps a burst as a time in ticks of 64 ns: at high rates this loses some bytes.
    slack = rate_bps / 8 * 64e-9 + 1
    burst = shaper.burst_bytes(rate_bps)
    for key in ("burst", "cburst"):
        if abs(have.get(key, 0) - burst) > slack:
            lines.append(f"{dev}: class {handle} {key}: requested {burst}, found {have.get(key)}")
    return lines


def slotted(dev: str, queue: Qdisc, state: State) -> list[str]:
    """Return the differences of the queue before the delivery trace at the egress of `dev`.

    The kernel shows the trace itself elsewhere (`sojourn.bottleneck.delivery_trace.differences`).
    """
    lines = _placed(dev, state, "1:", "slots", None) + _placed(dev, state, "10:", queue.kind, "1:1")
    shown = _qdisc(state, dev, "10:").get("options", {})
    return lines or [
        *(f"{dev}: {queue.kind} {line}" for line in queue.differences(shown)),
        *unfiltered(dev, queue, queue.filters(QUEUE), state),
    ]


def unfiltered(dev: str, queue: Qdisc, filters: Sequence[Filter], state: State) -> list[str]:
    """Return a line for each of `filters` that the queue under test at the egress of `dev` does not have."""
    return [
        f"{dev}: requested {one.protocol} {one.match} to {queue.kind}'s class {one.classid}, found no such filter"
        for one in filters
        if not one.is_among(state.queue_filters.get(dev, []))
    ]


def delayed(dev: str, ifb: str, requested: Impairment, state: State, only: Sequence[str] = ()) -> list[str]:
    """Return the differences of the path on `ifb` for everything `dev` receives, or `only` from these addresses."""
    hook = _qdisc(state, dev, "ffff:")
    if not requested.needed:
        lines = [f"{dev}: requested no delay, found {hook['kind']} {hook['handle']}"] if hook else []
        return lines + [f"{q['dev']}: requested no delay, found {q['kind']}" for q in state.qdiscs if q["dev"] == ifb]
    lines = []
    kind, whose = ("flower", sorted(only)) if only else ("matchall", [None])
    redirects = [
        (f["options"].get("keys", {}).get("src_ip"), action.get("to_dev"))
        for f in state.ingress[dev]
        for action in f.get("options", {}).get("actions", [])
        if f.get("kind") == kind and action.get("kind") == "mirred"
    ]
    if hook.get("kind") != "ingress" or sorted(redirects) != [(source, ifb) for source in whose]:
        what = f"packets from {', '.join(only)}" if only else "all incoming packets"
        targets = [to for _, to in redirects]
        lines.append(f"{dev}: requested a redirect of {what} to {ifb}, found {targets or 'none'}")
    return [*netem(ifb, requested, state), *lines]


def root(dev: str, kind: str, state: State) -> list[str]:
    """Return the differences of the root qdisc of `dev`, which is of that kind with its defaults."""
    return _placed(dev, state, "1:", kind, None)


def netem(dev: str, requested: Impairment, state: State) -> list[str]:
    """Return the differences of the netem at the root of `dev`."""
    if lines := _placed(dev, state, "1:", "netem", None):
        return lines
    options = _qdisc(state, dev, "1:")["options"]
    delay, slot = options.get("delay", {}), options.get("slot", {})
    shown = {
        "limit": (requested.limit, options.get("limit")),
        "delay": (_shown_us(requested.delay_us), _us(delay.get("delay"))),
        "jitter": (_shown_us(requested.jitter_us), _us(delay.get("jitter"))),
        "loss": (round(requested.loss_percent, 4), round(100 * options.get("loss-random", {}).get("loss", 0), 4)),
        "marks": (requested.marks, options.get("ecn", False)),
        "slot": (requested.slot_us, _us(slot.get("min-delay"))),
        # With only one time, netem uses it for both.
        "slot's largest": (requested.slot_max_us or requested.slot_us, _us(slot.get("max-delay"))),
        "slot's packets": (requested.slot_packets or 0, slot.get("packets", 0)),
    }
    different = [(key, want, have) for key, (want, have) in shown.items() if want != have]
    return [f"{dev}: netem {key}: requested {want}, found {have}" for key, want, have in different]


def _us(seconds: float | None) -> int:
    return round((seconds or 0) * 1e6)


def _shown_us(us: int) -> int:
    """What tc shows of a time: its JSON has six digits of the seconds, which from 1 s on are no longer each µs."""
    return _us(float(f"{us / 1e6:g}"))
