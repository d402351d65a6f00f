# SPDX-License-Identifier: Apache-2.0
"""The page of each request in a WARC, which may name none: by Sec-Fetch-Dest and Referer of the requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urljoin

from sojourn.apps.standins.har import DOCUMENT_TYPES, Exchange, Har


def with_pages(exchanges: Sequence[Exchange]) -> Har:
    """Return a recording in which every document that no other resource loads begins a page.

    A page that the recorder has named stays. A redirect belongs to the page to which it leads, another request to the
    page of its referrer, otherwise to the latest page. `exchanges` are in the order of their starts.
    """
    urls = {it.url for it in exchanges}
    begun, following = dict[int, str](), dict[str, str]()
    for it in reversed(exchanges):
        redirected = following.get(_target(it)) if 300 <= it.status < 400 else None
        if page := (it.page or str(it.number)) if _begins_page(it, urls) else redirected:
            begun[it.number] = following[it.url] = page
    latest = next((begun[it.number] for it in exchanges if it.number in begun), None)
    of_url, named = dict[str, str | None](), list[Exchange]()
    for it in exchanges:
        latest = begun.get(it.number, latest)
        page = it.page or begun.get(it.number) or of_url.get(it.referrer) or latest
        of_url[it.url] = page
        named.append(replace(it, page=page))
    return Har(tuple(named), tuple(dict.fromkeys(it.page for it in named if it.page)), "")


def _begins_page(exchange: Exchange, urls: set[str]) -> bool:
    """Whether a user opened a document; `urls` are those of the recording."""
    if exchange.mime not in DOCUMENT_TYPES or not exchange.is_whole:
        return False
    if kind := exchange.further.get("_resourceType"):
        return bool(kind == "document")
    return exchange.referrer == exchange.url or exchange.referrer not in urls


def _target(exchange: Exchange) -> str:
    """Return the URL to which an answer redirects; empty without one."""
    try:
        return urljoin(exchange.url, location) if (location := exchange.headers.get("location")) else ""
    except ValueError:
        return ""
