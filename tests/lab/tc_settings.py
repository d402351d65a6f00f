# SPDX-License-Identifier: Apache-2.0
"""Random settings of every queue that a bottleneck can have, as lines of `tc -batch`; the same seed gives the same."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from sojourn.bottleneck.parameters import U32, Choice, Flag, Fraction, Numbers, Valued
from sojourn.bottleneck.qdiscs import KINDS, Qdisc, parse_qdisc
from sojourn.bottleneck.sce import SINGLE, Ramp

PARENTS = ("htb", "slots", "tbf", "prio", "root")
"""What the queue is inside of; `slots` is the kernel's own, `root` nothing."""
PAUSE = "pause"
"""A line on which the traffic stops until the queue is empty; whoever feeds tc sees to it."""
SCHEDULE, START = "schedule", "start"
"""Words of a line that writes times to /proc/slots; a line that starts all schedules again."""
DEVICE = "dev lan"
_AT_MOST = {"limit": 100_000, "flows": 65_536, "buckets": 65_536, "divisor": 65_536}
"""What takes memory by itself; a table larger than the machine is refused, which another test sees to."""

_UNCHANGED = {"cake": "diffserv"}
"""Linux 7.2 drops what is in tins that a change takes away without telling the parent, which counts it for ever."""


def settings(seed: int, count: int) -> Iterator[str]:
    """Yield lines that set up `count` queues, and between them lines that show and change what is around these."""
    random = Random(seed)
    parent, kind, made = "", "", 0
    while made < count:
        if not parent or random.random() < 0.03:
            parent, kind = random.choice(PARENTS), ""
            yield from _inside(random, parent)
        at = _at(parent)
        chance = random.random()
        if kind and chance < 0.35:
            yield f"qdisc change {at} {_words(random, kind, _UNCHANGED.get(kind))}"
        elif kind and chance < 0.38:
            yield f"qdisc del {at}"
            kind = ""
        elif parent == "htb" and chance < 0.42:
            yield f"class change {DEVICE} parent 1: classid 1:1 htb rate {_rate(random)}"
            continue
        elif chance < 0.45:
            yield f"qdisc show {DEVICE}"
            continue
        elif parent == "slots" and chance < 0.5:
            yield random.choice((START, _schedule(random)))
            continue
        else:
            before, kind = kind, random.choice([*KINDS])
            words = _words(random, kind, _UNCHANGED.get(kind) if kind == before else None)
            framing = _framing(random) if parent == "root" and random.random() < 0.2 else ""
            yield f"qdisc replace {at} {framing}{words}"
        made += 1
        if random.random() < 0.01:
            yield PAUSE
    yield PAUSE


def _at(parent: str) -> str:
    return f"{DEVICE} {'root' if parent == 'root' else 'parent 1:1'}"


def _inside(random: Random, parent: str) -> Iterator[str]:
    """What the queue is inside of, made anew."""
    yield f"qdisc del {DEVICE} root"
    if parent == "htb":
        yield f"qdisc add {DEVICE} root handle 1: htb default 1"
        yield f"class add {DEVICE} parent 1: classid 1:1 htb rate {_rate(random)}"
    elif parent == "slots":
        yield _schedule(random)
        yield f"qdisc add {DEVICE} root handle 1: slots"
    elif parent == "tbf":
        yield f"qdisc add {DEVICE} root handle 1: tbf rate {_rate(random)} burst 20kb limit 1mb"
    elif parent == "prio":
        yield f"qdisc add {DEVICE} root handle 1: prio priomap {' 0' * 16}"


def _framing(random: Random) -> str:
    return f"stab mtu 4096 tsize 512 mpu {random.randrange(128)} overhead {random.randint(-64, 128)} linklayer atm "


def _rate(random: Random) -> str:
    return f"{random.choice((2, 10, 20, 50))}mbit"


def _schedule(random: Random) -> str:
    times = sorted(random.randrange(100) for _ in range(random.randint(1, 200)))
    return " ".join((SCHEDULE, *map(str, times), str(random.randint(100, 300))))


def _words(random: Random, kind: str, without: str | None = None) -> str:
    """A queue and some of its parameters, most of them in range and few that fit each other."""
    qdisc, share = KINDS[kind], random.random()
    tokens = {name: _tokens(random, qdisc, name) for name in qdisc.parameters() if random.random() < share}
    if random.random() < 0.5:  # what fits, and at most three that may not
        fitting = parse_qdisc(random.choice(qdisc.examples))
        others = random.sample([*tokens.items()], min(len(tokens), random.randrange(4)))
        given = {name: qdisc.parameters()[name].tokens(value) for name, value in fitting.given().items()}
        tokens = given | dict(others)
    tokens.pop(without or "", None)
    return " ".join([kind, *(word for name in random.sample([*tokens], len(tokens)) for word in tokens[name])])


def _tokens(random: Random, qdisc: type[Qdisc], name: str) -> list[str]:
    parameter = qdisc.parameters()[name]
    if isinstance(parameter, Valued):
        value = _value(random, parameter.low, min(parameter.high, _AT_MOST.get(name, parameter.high)))
        return parameter.tokens(value if isinstance(parameter, Fraction) else round(value))
    if isinstance(parameter, Numbers):
        return parameter.tokens(
            tuple(round(_value(random, parameter.low, parameter.high)) for _ in range(parameter.count))
        )
    if isinstance(parameter, Ramp):
        return parameter.tokens(random.choice((0, 1, 2, SINGLE - 1, SINGLE, random.randint(2, SINGLE))))
    if isinstance(parameter, Flag | Choice):
        return [random.choice(parameter.words)]
    return parameter.tokens(random.choice(_in_examples(qdisc, name)))


def _in_examples(qdisc: type[Qdisc], name: str) -> list[Any]:
    queues = map(parse_qdisc, qdisc.examples)
    return [value for queue in queues if (value := queue.given().get(name)) is not None]


def _value(random: Random, low: float, high: float) -> float:
    """An end of the range, one beyond it, or any magnitude between."""
    ends = (low, high, low + 1, high - 1, low - 1, high + 1, U32)
    if random.random() < 0.3:
        return random.choice(ends)
    start = max(low, 1e-3)
    return start * (max(high, start) / start) ** random.random()
