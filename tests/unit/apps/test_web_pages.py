# SPDX-License-Identifier: Apache-2.0
"""Drawn pages have the published medians, and their files exactly the drawn sizes."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import mean, median

import pytest

from sojourn.apps.standins.web import bodies
from sojourn.apps.standins.web.pages import (
    BYTES,
    COUNTS,
    KB,
    LEAST_BYTES,
    PERCENTS,
    Kind,
    Resource,
    WebPage,
    drawn_pages,
    quantile,
    ranks,
    think_times,
    weights,
)
from sojourn.apps.standins.web.site import PageFiles, WebSite, caddyfile, ensure_site

Weights = dict[Kind, tuple[int, int]]


@pytest.fixture(scope="module")
def many() -> list[Weights]:
    """The weights of 40 000 pages."""

    def drawn() -> Iterator[Weights]:
        for seed in range(5000):
            draw = random.Random(f"pages {seed}")
            yield from (weights(draw, rank) for rank in ranks(draw, 8))

    return list(drawn())


def test_whole_pages_have_the_almanacs_medians(many: list[Weights]) -> None:
    requests = median(sum(count for count, _ in page.values()) for page in many)
    kilobytes = median(sum(size for _, size in page.values()) for page in many) / KB
    assert requests == pytest.approx(71, rel=0.02)
    assert kilobytes == pytest.approx(2652, rel=0.02)


@pytest.mark.parametrize(("kind", "count", "kilobytes"), [("image", 18, 1054), ("js", 24, 613), ("css", 8, 78)])
def test_so_have_the_kinds(many: list[Weights], kind: Kind, count: int, kilobytes: float) -> None:
    assert (COUNTS[kind][2], BYTES[kind][2]) == (count, kilobytes)
    assert median(page[kind][0] for page in many) == pytest.approx(count, rel=0.02)
    assert median(page[kind][1] for page in many) / KB == pytest.approx(kilobytes, rel=0.02)


@pytest.mark.parametrize("percent", [10, 25, 75, 90])
def test_the_spread_of_images_is_published_too(many: list[Weights], percent: int) -> None:
    sizes = sorted(page["image"][1] / KB for page in many)
    published = BYTES["image"][PERCENTS.index(percent)]
    assert sizes[len(sizes) * percent // 100] == pytest.approx(published, rel=0.08)


def test_a_quantile_is_exact_at_the_percentiles_and_rises_between() -> None:
    for percent, value in zip(PERCENTS, BYTES["js"], strict=True):
        assert quantile(BYTES["js"], percent / 100) == pytest.approx(value)
    curve = [quantile(BYTES["js"], rank / 1000) for rank in range(1001)]
    assert curve == sorted(curve) and curve[0] > 0 and curve[-1] < 2 * BYTES["js"][-1]
    assert quantile(COUNTS["font"], 0) == 0


@pytest.fixture(scope="module")
def pages() -> list[WebPage]:
    return [page for seed in range(40) for page in drawn_pages(seed, 8)]


def test_pages_follow_from_their_seed() -> None:
    assert drawn_pages(7, 3) == drawn_pages(7, 8)[:3] != drawn_pages(8, 3)
    assert [*islice(think_times(7), 5)] == [*islice(think_times(7), 5)] != [*islice(think_times(8), 5)]


def test_a_user_reads_for_three_seconds_on_average() -> None:
    read = [*islice(think_times(1), 20_000)]
    assert min(read) >= 1 and mean(read) == pytest.approx(3, rel=0.03)


def test_a_run_has_light_and_heavy_pages() -> None:
    """Of any three pages in a row one is among the lighter and one among the heavier."""
    for seed in range(50):
        seen = ranks(random.Random(seed), 8)
        assert all(min(seen[n : n + 3]) < 0.5 < max(seen[n : n + 3]) for n in range(6))


def test_everything_is_loaded_by_something_that_can(pages: list[WebPage]) -> None:
    may = {
        "html": {"html", "css", "js", "image", "font", "data"},
        "css": {"css", "font", "image"},
        "js": {"html", "js", "image", "data"},
    }
    for page in pages:
        for number, resource in enumerate(page.resources[1:], 1):
            assert resource.parent < number and resource.kind in may[page.resources[resource.parent].kind]
            assert resource.bytes >= LEAST_BYTES[resource.kind]
        assert page.resources[0].kind == "html"


def test_pages_are_deep_and_have_many_hosts(pages: list[WebPage]) -> None:
    def depth(page: WebPage) -> int:
        depths: list[int] = []
        for number, resource in enumerate(page.resources):
            depths.append(1 + depths[resource.parent] if number else 1)
        return max(depths)

    assert 4 <= median(map(depth, pages)) <= 8
    assert 6 <= median(len(page.hosts) for page in pages) <= 15
    assert all(host.endswith(".test") for page in pages for host in page.hosts)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WebSite:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path))
    return ensure_site(drawn_pages(3, 2), 3)


def test_files_have_the_drawn_sizes_and_repeat(site: WebSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for page, drawn in zip(site.pages, drawn_pages(3, 2), strict=True):
        sizes = [(site.folder / path.lstrip("/")).stat().st_size for path in page.sizes]
        assert sizes == [resource.bytes for resource in drawn.resources] == [*page.sizes.values()]
        assert page.host == drawn.resources[0].host and page.hosts == len(drawn.hosts)
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "other"))
    again = ensure_site(drawn_pages(3, 2), 3)
    assert again.digest == site.digest and again.pages == site.pages
    for page in site.pages:
        for path in page.sizes:
            assert (again.folder / path[1:]).read_bytes() == (site.folder / path[1:]).read_bytes(), path


def test_every_host_has_its_own_certificate(site: WebSite, tmp_path: Path) -> None:
    text = caddyfile("fd00::1", 443, "h3", site, tmp_path / "origin.jsonl")
    assert "protocols h1 h2 h3" in text and "bind [fd00::1]" in text
    for host in site.hosts:
        assert f"https://{host}:443 {{" in text
    assert text.count('tls "') == len(site.hosts) == len({line for line in text.splitlines() if 'tls "' in line})
    assert "protocols h1 h2\n" in caddyfile("10.0.0.1", 443, "h2", site, tmp_path / "origin.jsonl")


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield type and content of every chunk, whose checksum must hold."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at = 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", png, at + 8 + length)[0] == zlib.crc32(kind + content)
        yield kind, content
        at += 12 + length


@pytest.mark.parametrize("pixels", [(24, 24), (160, 110), (627, 261), (960, 400)])
def test_a_picture_is_whole_and_has_its_size(pixels: tuple[int, int]) -> None:
    area = pixels[0] * pixels[1]
    least = bodies.LEAST_PNG + area // 4000
    full = (area * bits // 8 + more for bits in (1, 2, 4, 8, 24) for more in range(-200, 700, 53))
    for size in (*range(least, least + 200), 2048, 5000, 123_457, 1_600_000, *(it for it in full if it >= least)):
        png = bodies.picture(random.Random(size), size, *pixels)
        assert len(png) == size
        parts = dict(chunks(png))
        width, height, depth, colour = struct.unpack_from(">IIBB", parts[b"IHDR"])
        assert (width, height) == pixels
        bits = depth * {0: 1, 2: 3}[colour]
        assert len(zlib.decompress(parts[b"IDAT"])) == height * (1 + (bits * width + 7) // 8)
        assert len(zlib.compress(png)) > size - 200 - area * bits // 8 // 500


def test_a_picture_is_shown_at_its_natural_size_and_the_largest_one_first(site: WebSite) -> None:
    """Largest Contentful Paint counts the smaller of both areas, and no picture of fewer than 0.05 bits per pixel."""
    for page in site.pages:
        text = (site.folder / page.path[1:]).read_text()
        shown = re.findall(r'<img src="//[^/]*(/[^"]*)" width=(\d+) height=(\d+)', text)
        for path, width, height in shown:
            png = dict(chunks((site.folder / path[1:]).read_bytes()))
            assert struct.unpack_from(">II", png[b"IHDR"]) == (int(width), int(height))
        largest, width, height = shown[0]
        assert page.sizes[largest] == max(page.sizes[path] for path, *_ in shown)
        assert (width, height) == ("960", "400") and page.sizes[largest] * 8 > 0.1 * 960 * 400
        assert text.index("<h1>") < text.index(largest) < text.index('<p class="x')


def test_a_light_picture_is_smaller_than_low_content() -> None:
    for size in (2048, 3000, 4799, 4800, 30_000):
        page = WebPage((Resource("a.test", "html", 9000), Resource("a.test", "image", size)))
        body = PageFiles(page, 1).body(random.Random(1), 1)
        width, height = struct.unpack_from(">II", body, 16)
        assert len(body) == size and 120_000 < width * height <= 8 * size / 0.1 and width * height <= 960 * 400


@pytest.mark.parametrize("size", [1200, 1201, 1202, 1203, 40_000])
def test_a_font_has_its_size_and_checksums(size: int) -> None:
    ttf = bodies.font(random.Random(1), size)
    assert len(ttf) == size
    for number in range(struct.unpack_from(">H", ttf, 4)[0]):
        tag, checksum, offset, length = struct.unpack_from(">4sIII", ttf, 12 + 16 * number)
        table = ttf[offset : offset + length] + bytes(-length % 4)
        assert len(table) >= length and sum(struct.unpack(f">{len(table) // 4}I", table)) & 0xFFFFFFFF == checksum, tag


def test_texts_are_padded_to_their_size() -> None:
    draw = random.Random(1)
    for size in (300, 301, 2000):
        assert len(bodies.script(draw, "f();", size)) == len(bodies.style(draw, "a{}", size)) == size
        page = bodies.document(draw, [], ["<hr>"], size)
        assert len(page) == size and page.startswith(b"<!doctype html>")
