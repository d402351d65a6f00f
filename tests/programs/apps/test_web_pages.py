# SPDX-License-Identifier: Apache-2.0
"""A real Chromium uses everything of drawn pages: it requests each resource once, paints pictures and loads fonts.

The largest picture of a document is its Largest Contentful Paint.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Route

from sojourn.apps.standins.web.pages import Kind, Resource, WebPage, drawn_pages
from sojourn.apps.standins.web.session import SCRIPT
from sojourn.apps.standins.web.site import SitePage, WebSite, ensure_site
from tests.programs.apps.tab import Tab

HEADERS = {"Access-Control-Allow-Origin": "*", "Timing-Allow-Origin": "*", "Cache-Control": "no-store"}
IMAGES = "() => [...document.images].map(({ complete, naturalWidth }) => complete && naturalWidth > 0)"
FONTS = "async () => { await document.fonts.ready; return [...document.fonts].map(({ status }) => status); }"
LARGEST = """new PerformanceObserver((list) => { window.largest = list.getEntries().at(-1); })
    .observe({ type: 'largest-contentful-paint', buffered: true });"""
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "png": "image/png", "ttf": "font/ttf"}


@pytest.fixture(scope="module")
def drawn() -> list[WebPage]:
    return drawn_pages(1, 2)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn: list[WebPage]) -> WebSite:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    return ensure_site(drawn, 1)


def load(tab: Tab, site: WebSite, page: SitePage, missing: str = "") -> tuple[Counter[str], dict[str, Any]]:
    """Return how often each address without its scheme was requested, and what the page reports."""
    requested = Counter[str]()

    def answer(route: Route) -> None:
        url = urlsplit(route.request.url)
        requested[f"{url.netloc}{url.path}"] += 1
        kind = TYPES.get(url.path.rpartition(".")[2], "application/octet-stream")
        if url.path == missing:
            route.fulfill(status=404, headers=HEADERS)
        else:
            route.fulfill(path=site.folder / url.path[1:], headers=HEADERS, content_type=kind)

    tab.page.route(re.compile("^https:"), answer)
    tab.page.add_init_script(path=SCRIPT)
    tab.page.goto(f"https://{page.host}{page.path}", wait_until="load")
    tab.page.wait_for_function("() => __sojournLoad().load && __sojournLoad().lcp")
    tab.page.wait_for_load_state("networkidle")
    return requested, tab.evaluate("() => __sojournLoad()")


def test_every_resource_is_requested_once_and_used(tab: Tab, site: WebSite, drawn: list[WebPage]) -> None:
    for number, (page, its) in enumerate(zip(site.pages, drawn, strict=True), 1):
        requested, reported = load(tab, site, page)
        hosts = [resource.host for resource in its.resources]
        assert requested == Counter(f"{host}{path}" for host, path in zip(hosts, page.sizes, strict=True)), number
        assert reported["errors"] == 0
        assert 0 < reported["ttfb"] <= reported["fcp"] <= reported["lcp"] and reported["dcl"] <= reported["load"]
        assert all(tab.evaluate(IMAGES)) and set(tab.evaluate(FONTS)) <= {"loaded"}
        assert {*reported["done"], *page.unseen} == {*page.sizes}


def test_a_missing_resource_is_an_error(tab: Tab, site: WebSite) -> None:
    picture = next(path for path in site.pages[0].sizes if path.endswith(".png"))
    _, reported = load(tab, site, site.pages[0], picture)
    assert reported["errors"] == 1


@pytest.mark.parametrize("size", [2100, 30_000, 150_000])
def test_the_largest_picture_is_the_largest_paint(
    tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Below the heading: with long paragraphs, backgrounds and fonts above it, the window would not show it."""
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    host, of_style = "www.site1.test", list[tuple[Kind, int]]()
    of_style += [("font", 30_000), ("font", 20_000), ("image", 9_000), ("image", size)]
    page = WebPage((
        Resource(host, "html", 30_000), Resource(host, "css", 8_000),
        *(Resource(host, kind, it, 1) for kind, it in of_style),
        *(Resource(host, "image", it) for it in (size, *[size - 20] * 5)),
    ))  # fmt: skip
    site = ensure_site([page], 1)
    tab.page.add_init_script(LARGEST)
    load(tab, site, site.pages[0])
    tab.page.wait_for_function("() => window.largest?.element?.localName == 'img'", timeout=10_000)
    assert urlsplit(tab.evaluate("() => window.largest.element.src")).path == "/p1/6.png"
