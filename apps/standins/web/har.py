# SPDX-License-Identifier: Apache-2.0
"""Pages from a HAR, as a browser's developer tools save it, or a WARC: every request's host, kind, bytes and cause.

Bodies in the file are not used: they may be private, and a script need not request the same things twice. Pages with
bodies of Sojourn's own request the same things.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sojourn.apps.standins import warc
from sojourn.apps.standins.har import DOCUMENT_TYPES, ArchiveError, Exchange, Har, read_har
from sojourn.apps.standins.web.pages import LEAST_BYTES, REFERENCE_BYTES, Kind, Resource, WebPage

#: The longest common name of a certificate has 64 characters (RFC 5280, ub-common-name).
_HOST = re.compile(r"(?=.{1,64}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_IPV4 = re.compile(r"[\d.]+")
_LARGEST_BODY, _LARGEST_SITE = 64 << 20, 1 << 30


def read_pages(file: Path) -> list[WebPage]:
    """Return the pages of a recording, in its order; a WARC's name ends in .warc or .warc.gz. Raises ArchiveError."""
    har = warc.read_warc(file) if file.name.lower().endswith(warc.SUFFIXES) else read_har(file)
    pages = [page for part in _by_page(har) if (page := _page(part))]
    if (total := sum(resource.bytes for page in pages for resource in page.resources)) > _LARGEST_SITE:
        raise ArchiveError(
            f"{file}: its bodies have {total >> 20} MiB; at most {_LARGEST_SITE >> 20} are served", code="too-large"
        )
    if not pages:
        raise ArchiveError(
            f"{file}: has no document that a browser loaded (a response of text/html with status 200); record the page "
            "again, from an empty tab and with the browser's cache off",
            code="missing",
        )
    return pages


def _requested(exchange: Exchange) -> bool:
    """Whether a server answered, with a body of its own."""
    return exchange.status > 0 and not exchange.cached


def _part(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object within a record that is not checked; empty if it is none."""
    part = entry.get(name)
    return part if isinstance(part, dict) else {}


def _host(exchange: Exchange) -> str:
    """Return a host's name by which a certificate can be issued. An address becomes a name, another name a digest."""
    name = (exchange.address.hostname or "").rstrip(".").lower()
    if _IPV4.fullmatch(name) or ":" in name:
        name = re.sub(r"[^0-9a-f]+", "-", name).strip("-") + ".address.test"
    return name if _HOST.fullmatch(name) else f"h{hashlib.sha256(name.encode()).hexdigest()[:16]}.host.test"


def _by_page(har: Har) -> Iterator[list[Exchange]]:
    requested = [exchange for exchange in har.exchanges if _requested(exchange)]
    if len(har.pages) < 2:
        yield requested
        return
    by_name: dict[str, list[Exchange]] = {name: [] for name in har.pages}
    for exchange in requested:
        by_name.get(exchange.page or "", by_name[har.pages[0]]).append(exchange)
    yield from by_name.values()


def _page(exchanges: Sequence[Exchange]) -> WebPage | None:
    """Return the page of these requests; None without a document. What precedes the document leads to it."""
    first = next((n for n, exchange in enumerate(exchanges) if _kind(exchange) == "html" and exchange.is_whole), None)
    if first is None:
        return None
    ordered = [exchanges[first], *exchanges[:first], *exchanges[first + 1 :]]
    places: dict[str, int] = {}
    resources: list[Resource] = []
    for number, exchange in enumerate(ordered):
        kind = _kind(exchange) if exchange.is_whole else "data"
        parent = _cause(exchange, places) if number else 0
        size = min(exchange.received or 0, _LARGEST_BODY)
        resources.append(Resource(_host(exchange), kind, size, parent, kind == "js" and _blocks(exchange)))
        places.setdefault(_plain(exchange.url), number)
    return _possible(resources)


def _plain(url: str) -> str:
    return url.partition("#")[0]


def _kind(exchange: Exchange) -> Kind:
    mime, suffix = exchange.mime, exchange.address.path.rpartition(".")[2].lower()
    if mime in DOCUMENT_TYPES:
        return "html" if exchange.further.get("_resourceType", "document") in ("document", "subdocument") else "data"
    if mime == "text/css":
        return "css"
    if "javascript" in mime or "ecmascript" in mime:
        return "js"
    if mime.startswith("image/"):
        return "image"
    if mime.startswith("font/") or "font-" in mime or suffix in ("woff", "woff2", "ttf", "otf"):
        return "font"
    return "data"


def _blocks(exchange: Exchange) -> bool:
    """Whether the document's parser waited for a script, by its priority in Chromium's file."""
    high = exchange.further.get("_priority") in ("High", "VeryHigh")
    return high and _part(exchange.further, "_initiator").get("type") == "parser"


def _cause(exchange: Exchange, places: Mapping[str, int]) -> int:
    """Return the index of what loaded a resource, by its initiator, otherwise by its referrer; 0: the document."""
    for url in _initiators(exchange):
        if (place := places.get(_plain(url))) is not None:
            return place
    return 0


def _initiators(exchange: Exchange) -> Iterator[str]:
    initiator = _part(exchange.further, "_initiator")
    if isinstance(url := initiator.get("url"), str):
        yield url
    stack = _part(initiator, "stack")
    while stack:
        frames = stack.get("callFrames")
        for frame in frames if isinstance(frames, list) else []:
            if isinstance(frame, dict) and isinstance(url := frame.get("url"), str) and url:
                yield url
        stack = _part(stack, "parent")
    yield exchange.referrer


#: What a resource of a kind can load.
_LOADS: Mapping[Kind, frozenset[Kind]] = {
    "html": frozenset(("html", "css", "js", "image", "data")),
    "css": frozenset(("css", "font", "image")),
    "js": frozenset(("html", "css", "js", "image", "data")),
}


def _possible(resources: Sequence[Resource]) -> WebPage:
    """Return a page in which every resource is loaded by one that can, and that has room for its address.

    What none can load becomes data of the same size. A resource that is too small to be of its kind, too.
    """
    made: list[Resource] = []
    room: list[int] = []
    for number, resource in enumerate(resources):
        if number and resource.bytes < LEAST_BYTES[resource.kind]:
            resource = replace(resource, kind="data", blocking=False)
        if resource.kind == "font" and number and not _style_above(made, resource.parent):
            resource = replace(resource, kind="data")
        parent = resource.parent
        while parent and not (
            resource.kind in _LOADS.get(made[parent].kind, ()) and room[parent] >= REFERENCE_BYTES + len(resource.host)
        ):
            parent = made[parent].parent
        if resource.kind == "font" and not parent:
            resource = replace(resource, kind="data")
        if number:
            room[parent] -= REFERENCE_BYTES + len(resource.host)
            resource = replace(resource, parent=parent, blocking=resource.blocking and not parent)
        made.append(resource)
        room.append(resource.bytes - LEAST_BYTES[resource.kind])
    return WebPage(tuple(made))


def _style_above(made: Sequence[Resource], parent: int) -> bool:
    while parent:
        if made[parent].kind == "css":
            return True
        parent = made[parent].parent
    return False
