# SPDX-License-Identifier: Apache-2.0
"""Each chosen player plays the film from the real origin in a real Chromium, and logs its decisions in one form."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright
from pydantic import TypeAdapter

from sojourn.apps.base import Stage
from sojourn.apps.browsers.browser import CHROMIUM
from sojourn.apps.chosen_player import ChosenPlayer
from sojourn.apps.iptv import Iptv
from sojourn.apps.options import PLAYERS
from sojourn.apps.players import BY_NAME, SCRIPTS, ensure_players, pinned_players
from sojourn.apps.players.manifests import live_mpd
from sojourn.apps.standins.clip import SEGMENT_SECONDS, Clip, ensure_clip
from sojourn.apps.standins.hls import window_segments
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.standins.origin import HOST, ensure_player
from sojourn.apps.youtube import YouTube
from sojourn.captures.player import DRAIN, SCRIPT
from sojourn.hardware.machine.place import LOCAL
from sojourn.scoring.schema.records import Decision
from tests.programs.apps.fetch import serving

RUNGS = DEFAULT[:2]
_BEST = f"player.best() === {RUNGS[-1].height} && player.shown() === player.best()"


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Clip:
    """Four seconds of the real clip in two renditions, which last 200 s."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(tmp_path_factory.mktemp("cache")))
        return ensure_clip(seconds=4, ladder=RUNGS, film_seconds=200)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_playwright() as playwright:
        flags = ["--disable-gpu", f"--host-resolver-rules=MAP {HOST} 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


def played(service: ChosenPlayer, clip: Clip, folder: Path, chromium: Any) -> list[dict[str, Any]]:
    """Play until the best rendition is shown and more segments follow, and return the lines of the log."""
    (run := folder / "run").mkdir()
    service.take({"clip": vars(clip)})
    site, path = service.site(Stage(LOCAL, LOCAL, "127.0.0.1", run, ""), clip)
    page = chromium.new_page(ignore_https_errors=True)
    lines: list[dict[str, Any]] = []

    def enough() -> bool:
        lines.extend(page.evaluate(DRAIN))
        return len(decisions(lines)) >= 4 and bool(page.evaluate(_BEST))

    with serving(site, run, folder / "cache", ensure_player()) as origin:
        try:
            page.add_init_script(path=SCRIPT)
            page.goto(origin.url + path)
            end = time.monotonic() + 90
            while not enough():
                assert time.monotonic() < end, (page.evaluate("window.playerError"), lines)
                page.wait_for_timeout(100)
        finally:
            page.close()
    return lines


def decisions(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("event") == "decision"]


def check(service: ChosenPlayer, lines: list[dict[str, Any]], clip: Clip) -> None:
    """Assert that the log has what the player chose, in the form that all have."""
    rates = dict(zip((rung.height for rung in RUNGS), clip.rates, strict=True))
    made = [TypeAdapter(Decision).validate_python(line["detail"], strict=True) for line in decisions(lines)]
    assert all(it["rate_bps"] == rates[it["height"]] for it in made)
    assert made[0]["buffer_s"] == 0 and all(0 <= it["buffer_s"] <= service.buffer for it in made)
    assert any(it["throughput_bps"] for it in made), "its own estimate"
    assert {RUNGS[-1].height} <= {it["height"] for it in made}
    numbers = [it["segment"] for it in made]
    assert numbers == sorted(numbers) and set(numbers) == set(range(numbers[0], numbers[-1] + 1))


@pytest.mark.parametrize("player", PLAYERS)
def test_a_film_on_demand(player: str, clip: Clip, tmp_path: Path, chromium: Any) -> None:
    service = YouTube(player=player, rungs=RUNGS, buffer=6)
    lines = played(service, clip, tmp_path, chromium)
    check(service, lines, clip)
    assert decisions(lines)[0]["detail"]["segment"] == 1


@pytest.mark.parametrize("player", [name for name in PLAYERS if name == "dash-dynamic" or not name.startswith("dash-")])
def test_a_broadcast(player: str, clip: Clip, tmp_path: Path, chromium: Any) -> None:
    """It begins behind the newest segment, and requests none before it has been broadcast."""
    service = Iptv(player=player, rungs=RUNGS, buffer=6)
    began = time.time() - window_segments(6, SEGMENT_SECONDS) * SEGMENT_SECONDS
    lines = played(service, clip, tmp_path, chromium)
    check(service, lines, clip)
    ends = {line["detail"]["segment"]: began + line["detail"]["segment"] * SEGMENT_SECONDS for line in decisions(lines)}
    assert all(line["t"] >= ends[line["detail"]["segment"]] - 0.5 for line in decisions(lines))
    assert ends[min(ends)] > began + SEGMENT_SECONDS


def test_every_player_has_its_script_its_licence_and_its_pinned_version() -> None:
    folder = ensure_players()
    assert tuple(BY_NAME) == PLAYERS
    for player in BY_NAME.values():
        assert (folder / player.script).read_bytes() == (SCRIPTS / player.script).read_bytes()
        assert (folder / player.library).exists() or (ensure_player() / player.library).exists()
    for package, version in pinned_players().items():
        assert (folder / f"{package}.LICENSE").read_text().strip()
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert "resolved" not in (SCRIPTS / "package-lock.json").read_text()
    assert BY_NAME["shaka"].version == f"shaka-player {pinned_players()['shaka-player']}"


def test_a_broadcasts_manifest_has_the_offered_renditions_alone(clip: Clip) -> None:
    mpd = live_mpd(clip, (1,), 1_800_000_000.25, 8, 8)
    root = ElementTree.fromstring(mpd)
    assert root.get("type") == "dynamic" and root.get("availabilityStartTime") == "2027-01-15T08:00:00.250Z"
    assert root.get("suggestedPresentationDelay") == "PT8S" and root.get("timeShiftBufferDepth") == "PT16S"
    assert root.get("mediaPresentationDuration") is None
    assert [it.get("height") for it in root.findall(".//{*}Representation")] == [str(RUNGS[1].height)]
