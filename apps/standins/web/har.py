# SPDX-License-Identifier: Apache-2.0
"""Pages from a HAR 1.2 file, as a browser's developer tools save it: every request's host, kind, bytes and cause.

Specification: http://www.softwareishard.com/blog/har-12-spec/. Bodies in the file are not used: they may be private,
and a script need not request the same things twice. Pages with bodies of Sojourn's own request the same things.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NotRequired
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sojourn.apps.standins.web.pages import LEAST_BYTES, REFERENCE_BYTES, Kind, Resource, WebPage
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.json_text import bounded
from sojourn.hardware.machine.messages import first_wrong

MOST_BYTES, MOST_REQUESTS = 256 << 20, 5000
"""The largest file, and the most requests of all pages."""
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_IPV4 = re.compile(r"[\d.]+")
#: Values in a file, those that are only within the texts of bodies included.
_MOST_VALUES = 1 << 25
_LARGEST_BODY = 64 << 20


class HarError(CodedError):
    """A file that is not a HAR with a page in it; one line that names it."""


class _HarRecord(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]


class _HarContent(_HarRecord):
    size: NotRequired[int | None]
    mimeType: NotRequired[str | None]


class _HarHeader(_HarRecord):
    name: str
    value: str


class _HarRequest(_HarRecord):
    url: str
    headers: NotRequired[list[_HarHeader]]


class _HarResponse(_HarRecord):
    status: int
    content: NotRequired[_HarContent]
    bodySize: NotRequired[int | None]


class _HarEntry(_HarRecord):
    pageref: NotRequired[str | None]
    startedDateTime: NotRequired[str]
    request: _HarRequest
    response: _HarResponse


class _HarPage(_HarRecord):
    id: str


class _HarLog(_HarRecord):
    version: NotRequired[str]
    pages: NotRequired[list[_HarPage] | None]
    entries: Annotated[list[_HarEntry], Field(max_length=MOST_REQUESTS)]


class _HarFile(_HarRecord):
    log: _HarLog


_SHAPE: TypeAdapter[_HarFile] = TypeAdapter(_HarFile)


def read_har(file: Path) -> list[WebPage]:
    """Return the pages of a HAR, in the order in which it lists them. Raises HarError."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise HarError(f"{file}: is larger than {MOST_BYTES >> 20} MiB; save it without content", code="too-large")
        known = _SHAPE.validate_python(
            json.loads(bounded(file.read_bytes().removeprefix(b"\xef\xbb\xbf"), _MOST_VALUES))
        )
    except OSError as error:
        raise HarError(f"{file}: {error.strerror}", code="unreadable-file") from error
    except ValidationError as error:
        raise HarError(f"{file}: is not a HAR 1.2 file: {first_wrong(error)}", code="invalid-value") from error
    except (ValueError, RecursionError) as error:
        raise HarError(f"{file}: is not a HAR 1.2 file: it is not JSON ({error})", code="invalid-value") from error
    entries = [entry for entry in known["log"]["entries"] if _requested(entry)]
    pages = [page for part in _by_page(known["log"], entries) if (page := _page(part))]
    if not pages:
        raise HarError(
            f"{file}: has no document that a browser loaded (a response of text/html with status 200); record the page "
            "again, from an empty tab and with the browser's cache off",
            code="missing",
        )
    return pages


def _requested(entry: Mapping[str, Any]) -> bool:
    """Whether the request went to a server by HTTP and was answered."""
    url = urlsplit(entry["request"]["url"])
    cached = entry.get("_fromCache") or _part(entry, "cache").get("beforeRequest")
    return (
        url.scheme in ("http", "https") and _host(url.hostname or "") != "" and entry["response"]["status"] > 0
        and not cached
    )  # fmt: skip


def _part(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an object within a record that the specification does not describe; empty if it is none."""
    part = entry.get(name)
    return part if isinstance(part, dict) else {}


def _host(name: str) -> str:
    """Return a host's name by which a certificate can be issued; empty if it has none. An address becomes a name."""
    name = name.rstrip(".").lower()
    if _IPV4.fullmatch(name) or ":" in name:
        name = re.sub(r"[^0-9a-f]+", "-", name).strip("-") + ".address.test"
    return name if _HOST.fullmatch(name) else ""


def _by_page(log: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    names = [page["id"] for page in log.get("pages") or []]
    if len(names) < 2:
        yield list(entries)
        return
    for name in names:
        yield [entry for entry in entries if (entry.get("pageref") or names[0]) == name]


def _page(entries: Sequence[Mapping[str, Any]]) -> WebPage | None:
    """Return the page of these requests; None without a document. What precedes the document leads to it."""
    first = next((n for n, entry in enumerate(entries) if _kind(entry) == "html" and _is_whole(entry)), None)
    if first is None:
        return None
    ordered = [entries[first], *entries[:first], *entries[first + 1 :]]
    places: dict[str, int] = {}
    resources: list[Resource] = []
    for number, entry in enumerate(ordered):
        url = entry["request"]["url"]
        kind = _kind(entry)
        if not _is_whole(entry):
            kind = "data"
        parent = _cause(entry, places) if number else 0
        host = _host(urlsplit(url).hostname or "")
        resources.append(Resource(host, kind, _bytes(entry), parent, kind == "js" and _blocks(entry)))
        places.setdefault(_plain(url), number)
    return _possible(resources)


def _plain(url: str) -> str:
    return url.partition("#")[0]


def _is_whole(entry: Mapping[str, Any]) -> bool:
    return 200 <= entry["response"]["status"] < 300 and _bytes(entry) > 0


def _bytes(entry: Mapping[str, Any]) -> int:
    """Return the bytes of a body on the wire; without a report of them, those of the transfer or of the content."""
    response = entry["response"]
    known = (response.get("bodySize"), response.get("_transferSize"), response.get("content", {}).get("size"))
    return min(next((size for size in known if isinstance(size, int) and size > 0), 0), _LARGEST_BODY)


def _kind(entry: Mapping[str, Any]) -> Kind:
    mime = str(entry["response"].get("content", {}).get("mimeType") or "").partition(";")[0].strip().lower()
    suffix = urlsplit(entry["request"]["url"]).path.rpartition(".")[2].lower()
    if mime in ("text/html", "application/xhtml+xml"):
        return "html" if entry.get("_resourceType", "document") in ("document", "subdocument") else "data"
    if mime == "text/css":
        return "css"
    if "javascript" in mime or "ecmascript" in mime:
        return "js"
    if mime.startswith("image/"):
        return "image"
    if mime.startswith("font/") or "font-" in mime or suffix in ("woff", "woff2", "ttf", "otf"):
        return "font"
    return "data"


def _blocks(entry: Mapping[str, Any]) -> bool:
    """Whether the document's parser waited for a script, by its priority in Chromium's file."""
    return _part(entry, "_initiator").get("type") == "parser" and entry.get("_priority") in ("High", "VeryHigh")


def _cause(entry: Mapping[str, Any], places: Mapping[str, int]) -> int:
    """Return the index of what loaded a resource, by its initiator, otherwise by its referrer; 0: the document."""
    for url in _initiators(entry):
        if (place := places.get(_plain(url))) is not None:
            return place
    return 0


def _initiators(entry: Mapping[str, Any]) -> Iterator[str]:
    initiator = _part(entry, "_initiator")
    if isinstance(url := initiator.get("url"), str):
        yield url
    stack = _part(initiator, "stack")
    while stack:
        frames = stack.get("callFrames")
        for frame in frames if isinstance(frames, list) else []:
            if isinstance(frame, dict) and isinstance(url := frame.get("url"), str) and url:
                yield url
        stack = _part(stack, "parent")
    for header in entry["request"].get("headers") or []:
        if header["name"].lower() == "referer":
            yield header["value"]


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
