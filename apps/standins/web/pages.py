# SPDX-License-Identifier: Apache-2.0
"""Pages as data: their resources, hosts and dependencies, drawn from percentiles of the HTTP Archive.

Source of counts and bytes per page: HTTP Archive, Web Almanac 2024, chapter "Page Weight", desktop pages crawled in
October 2024 (https://almanac.httparchive.org/en/2024/page-weight). Bytes are those on the wire, in KB of 1024 bytes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

Kind = Literal["html", "css", "js", "image", "font", "data"]
"""What a resource is to the page; `data` are bytes that a script fetches: JSON, media, beacons."""
KB = 1024
PERCENTS = 10, 25, 50, 75, 90
COUNTS: Mapping[Kind, tuple[float, ...]] = {
    "html": (1, 1, 2, 6, 12),
    "css": (2, 4, 8, 16, 26),
    "js": (5, 12, 24, 43, 69),  # the chapter's 90th percentile is a misprint, so it is that of mobile pages
    "image": (5, 9, 18, 33, 60),
    "font": (0, 2, 4, 7, 11),
}
"""Requests per page at `PERCENTS`, by kind."""
BYTES: Mapping[Kind, tuple[float, ...]] = {
    "html": (7, 11, 18, 31, 55),  # the median is published, the spread is a convention of this project
    "css": (10, 36, 78, 152, 269),
    "js": (101, 270, 613, 1172, 1834),
    "image": (84, 322, 1054, 2822, 6526),
    "font": (0, 60, 131, 226, 360),  # as for html
}
"""KB per page at `PERCENTS`, by kind; the medians of homepages, whose total is published."""
#: Whole pages have medians of 71 requests and 2652 KB. The kinds above do not add up to them: the rest is `data`.
_REST: Kind = "data"
#: Requests and KB of the rest at `PERCENTS`: the chapter's spread of all requests (24, 42, 71, 115, 176), and that of
#: images for bytes. The medians are fitted, so that whole pages have the published medians.
_REST_COUNTS = tuple(count / 71 * 6.0 for count in (24, 42, 71, 115, 176))
_REST_KB = tuple(kb / 1054 * 200.0 for kb in (84, 322, 1054, 2822, 6526))
#: Correlation of the kinds' ranks in a page: heavy pages are heavy in most kinds. A convention of this project.
_ALIKE = 0.7
#: Least size of a resource, bytes: a PNG, a font or a script must fit.
LEAST_BYTES: Mapping[Kind, int] = {"html": 400, "css": 200, "js": 300, "image": 100, "font": 1200, "data": 100}
#: Room for the address of a resource that another one loads, bytes.
REFERENCE_BYTES = 80
#: Spread of sizes within a kind: standard deviation of the logarithm.
_SPREAD = 1.2
#: Shares of resources that something other than the document loads, and of those that third parties serve. The chapter
#: "Third Parties" (2024) has the order: scripts, then images, then documents. The shares are conventions.
_BY_SCRIPT: Mapping[Kind, float] = {"html": 0.5, "css": 0.0, "js": 0.5, "image": 0.15, "font": 0.0, "data": 1.0}
_BY_STYLE: Mapping[Kind, float] = {"html": 0.0, "css": 0.15, "js": 0.0, "image": 0.1, "font": 1.0, "data": 0.0}
_THIRD: Mapping[Kind, float] = {"html": 0.8, "css": 0.1, "js": 0.45, "image": 0.25, "font": 0.0, "data": 0.6}
#: Number of third-party hosts, and of those that a page uses at most and at least.
_THIRD_PARTIES, _HOSTS = 24, (3, 12)
_NORMAL = NormalDist()
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Resource:
    """One request of a page: its host, kind, bytes of its body, and the index of the resource that loads it.

    Resource 0 is the document, which nothing loads. `blocking`: a script that stops the document's parser.
    """

    host: str
    kind: Kind
    bytes: int
    parent: int = 0
    blocking: bool = False


@dataclass(frozen=True)
class WebPage:
    """A page: its document and everything that it loads, each after the resource that loads it."""

    resources: tuple[Resource, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all bodies."""
        return sum(resource.bytes for resource in self.resources)

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, the document's first."""
        return tuple(dict.fromkeys(resource.host for resource in self.resources))


def drawn_pages(seed: int, number: int) -> list[WebPage]:
    """Return the pages of a run. Every one has the published distribution; together they cover it evenly.

    The ranks of successive pages differ by the golden ratio (a Kronecker sequence), so that any first few of them have
    light and heavy ones, whatever the seed.
    """
    draw = random.Random(f"pages {seed}")
    return [_drawn(draw, rank, n + 1) for n, rank in enumerate(ranks(draw, number))]


def ranks(draw: random.Random, number: int) -> list[float]:
    """Return the ranks of a run's pages among all pages, 0 to 1."""
    start = draw.random()
    return [(start + n * _GOLDEN) % 1 for n in range(number)]


def think_times(seed: int) -> Iterator[float]:
    """Yield the time for which a user reads each page, s, endlessly: exponential, 1 s and longer, with a mean of 3 s.

    Models of mobile traffic have a mean of 30 s (3GPP2 C.R1002), which leaves two loads a minute.
    """
    draw = random.Random(f"think {seed}")
    while True:
        yield 1.0 + draw.expovariate(1 / 2.0)


def quantile(percentiles: Sequence[float], rank: float) -> float:
    """Return the value at a rank, 0 to 1, of a distribution with these values at `PERCENTS`.

    Between them, the logarithm of the value (plus 1) is linear in the normal score of the rank; beyond the first and
    the last, it continues to the 5th and the 95th percentile, and no further.
    """
    scores = [_NORMAL.inv_cdf(percent / 100) for percent in PERCENTS]
    logs = [math.log1p(value) for value in percentiles]
    score = _NORMAL.inv_cdf(min(max(rank, 0.05), 0.95))
    last = len(scores) - 2
    part = next((n for n in range(last) if score <= scores[n + 1]), last)
    slope = (logs[part + 1] - logs[part]) / (scores[part + 1] - scores[part])
    return max(0.0, math.expm1(logs[part] + slope * (score - scores[part])))


def weights(draw: random.Random, rank: float) -> dict[Kind, tuple[int, int]]:
    """Return requests and bytes of every kind of a page that is heavier than the share `rank` of all, by its kinds."""
    common, drawn = _score(rank), dict[Kind, tuple[int, int]]()
    for kind in (*COUNTS, _REST):
        of_counts, of_kb = (COUNTS[kind], BYTES[kind]) if kind != _REST else (_REST_COUNTS, _REST_KB)
        counted = _like(draw, common)
        count = round(quantile(of_counts, _NORMAL.cdf(counted)))
        # Number and bytes of a kind belong together, but not exactly.
        kb = quantile(of_kb, _NORMAL.cdf(_like(draw, counted)))
        count = max(count, 1) if kind in ("html", "css", "js") else count
        drawn[kind] = count, max(round(KB * kb), count * LEAST_BYTES[kind]) if count else 0
    return drawn


def _score(rank: float) -> float:
    return _NORMAL.inv_cdf(min(max(rank, 1e-6), 1 - 1e-6))


def _like(draw: random.Random, score: float) -> float:
    """Return a normal score that is correlated with another one."""
    return _ALIKE * score + math.sqrt(1 - _ALIKE**2) * draw.gauss(0, 1)


def _drawn(draw: random.Random, rank: float, number: int) -> WebPage:
    sizes = {
        kind: _split(draw, total, count, LEAST_BYTES[kind]) for kind, (count, total) in weights(draw, rank).items()
    }
    return _linked(draw, sizes, number)


def _split(draw: random.Random, total: int, number: int, least: int) -> list[int]:
    """Return `number` sizes of at least `least` bytes that add up to `total`, if that is enough."""
    if not number:
        return []
    shares = [draw.lognormvariate(0, _SPREAD) for _ in range(number)]
    rest = max(0, total - least * number)
    sizes = [least + int(rest * share / sum(shares)) for share in shares]
    sizes[0] += max(0, total - sum(sizes))
    return sizes


def _linked(draw: random.Random, sizes: Mapping[Kind, Sequence[int]], number: int) -> WebPage:
    """Return a page of resources with these sizes: hosts, and what loads what."""
    site = f"site{number}.test"
    thirds = [f"t{n + 1}.test" for n in draw.sample(range(_THIRD_PARTIES), draw.randint(*_HOSTS))]

    def host(kind: Kind) -> str:
        if draw.random() < _THIRD[kind]:
            return draw.choice(thirds)
        # Without CORS, a page may use only its own host's fonts.
        own = {"html": "www", "data": "www", "font": "www", "image": "img"}
        return f"{own.get(kind, 'static')}.{site}"

    resources = [Resource(f"www.{site}", "html", max(sizes["html"]))]
    documents = sorted(sizes["html"], reverse=True)[1:]
    styles: list[int] = []
    scripts: list[int] = []
    order: list[tuple[Kind, Sequence[int]]] = [
        *(("css", sizes["css"]), ("js", sizes["js"]), ("font", sizes["font"])),
        *(("image", sizes["image"]), ("html", documents), ("data", sizes["data"])),
    ]
    room = [size - LEAST_BYTES["html"] for size in (resources[0].bytes,)]
    for kind, its_sizes in order:
        for size in its_sizes:
            chance = draw.random()
            parents = [0]
            if chance < _BY_SCRIPT[kind]:
                parents = scripts or [0]
            elif chance < _BY_SCRIPT[kind] + _BY_STYLE[kind]:
                parents = styles or [0]
            # A resource needs room for the addresses of those that it loads.
            able = [parent for parent in parents if room[parent] >= REFERENCE_BYTES] or [0]
            parent = draw.choice(able)
            room[parent] -= REFERENCE_BYTES
            blocking = kind == "js" and not parent and draw.random() < 0.3
            {"css": styles, "js": scripts}.get(kind, []).append(len(resources))
            resources.append(Resource(host(kind), kind, size, parent, blocking))
            room.append(size - LEAST_BYTES[kind] if kind in ("css", "js") else 0)
    need = LEAST_BYTES["html"] + REFERENCE_BYTES * sum(it.parent == 0 for it in resources[1:])
    if (missing := need - resources[0].bytes) > 0:
        resources[0] = Resource(resources[0].host, "html", resources[0].bytes + missing)
    return WebPage(tuple(resources))
