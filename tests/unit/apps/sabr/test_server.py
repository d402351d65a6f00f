# SPDX-License-Identifier: Apache-2.0
"""What a request for film gets: segments from where the client is, of the rendition that the policy chooses."""

from __future__ import annotations

from sojourn.apps.standins.sabr.server import SabrFormat, ServedFilm, answer
from sojourn.apps.standins.sabr.wire import PlaybackRequest

RATES = (300_000, 700_000, 1_500_000, 2_900_000)
PICTURES = tuple(
    SabrFormat(itag, "x", "video/mp4", bps, 240 * itag, 2.0, 30, 330) for itag, bps in enumerate(RATES, start=1)
)
SOUND = SabrFormat(100, "y", "audio/mp4", 128_000, 0, 64 / 15, 15, 154)


def numbers(film: ServedFilm, request: PlaybackRequest) -> tuple[list[int], list[int]]:
    given = answer(film, request)
    sound = [number for track, number in given.segments if track is SOUND]
    return [number for track, number in given.segments if track is not SOUND], sound


def film(policy: str = "throughput") -> ServedFilm:
    return ServedFilm(PICTURES, SOUND, policy, 12.0)


def test_the_first_answer_begins_the_film_with_all_formats() -> None:
    given = answer(film(), PlaybackRequest(0, 0, (), {}))
    assert numbers(film(), PlaybackRequest(0, 0, (), {})) == ([1, 2], [1])
    assert [track.itag for track in given.new] == [100, 1]  # 80 % of 0.7 Mbit/s
    assert given.backoff_s == 0.0


def test_the_next_one_goes_on_after_what_the_client_has() -> None:
    request = PlaybackRequest(500, 5_000_000, (1, 100), {1: 2, 100: 1})
    given = answer(film(), request)
    assert given.ahead_s == 3.5
    assert given.picture.height == 960
    assert numbers(film(), request) == ([3, 4], [2])
    assert [track.itag for track in given.new] == [4]  # the sound is known


def test_a_full_client_gets_no_film_and_is_to_wait() -> None:
    request = PlaybackRequest(0, 5_000_000, (4, 100), {4: 7, 100: 4})
    given = answer(film(), request)
    assert given.segments == ()
    assert given.backoff_s == given.ahead_s - 8.0


def test_what_was_buffered_of_another_rendition_counts() -> None:
    request = PlaybackRequest(0, 900_000, (2, 100), {4: 3, 2: 5, 100: 2})
    assert numbers(film(), request) == ([6, 7], [3])  # the sound ends at 8.5 s, and 4 s more are sent


def test_the_film_ends_with_its_last_segment() -> None:
    assert numbers(film(), PlaybackRequest(658_000, 5_000_000, (4, 100), {4: 330, 100: 154})) == ([], [])
