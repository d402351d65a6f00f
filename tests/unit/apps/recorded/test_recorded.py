# SPDX-License-Identifier: Apache-2.0
"""The file of a profile: what is written can be read, and what somebody edited is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sojourn.apps.standins.profile.recorded import (
    Rendition,
    ServiceProfile,
    ServiceProfileError,
    SoundTrack,
    Visible,
    profile_text,
    read_profile,
)
from sojourn.hardware.machine.errors import Code
from tests.refusals import refusal

PROFILE = ServiceProfile(
    profile=1, service='a"b\\.test', recorder="x", segment_s=2.5, buffer_s=12.0,
    rendition=(
        Rendition(height=240, bandwidth=300_000, recorded=1, sizes=tuple(range(70_000, 70_030))),
        Rendition(height=720, bandwidth=2_500_000, sizes=tuple(range(600_000, 600_030))),
    ),
    sound=SoundTrack(bandwidth=128_000, segment_s=5.0, sizes=(80_000,)),
    visible=Visible(requests=3, rtt_ms=20.5),
)  # fmt: skip


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (file := tmp_path / "a.toml").write_text(profile_text(PROFILE))
    assert read_profile(file) == PROFILE


def test_the_digest_is_of_what_a_run_plays() -> None:
    assert PROFILE.model_copy(update={"visible": Visible()}).digest == PROFILE.digest
    assert PROFILE.model_copy(update={"buffer_s": 13.0}).digest != PROFILE.digest


@pytest.mark.parametrize(
    ("change", "code", "mentioned"),
    [
        (("profile = 1", "profile = 2"), "invalid-value", "profile"),
        (("segment_s = 2.5", "segment_s = nan"), "invalid-value", "segment_s"),
        (("70000,", "-70000,"), "invalid-value", "sizes"),
        (("70000,", ""), "invalid-value", "number of sizes"),
        (("bandwidth = 300000", "bandwidth = 300000000"), "invalid-value", "ascend"),
        (("height = 240", "height = 9000"), "invalid-value", "height"),
        (("buffer_s = 12.0", "buffer_s = 12.0\nfurther = 1"), "invalid-value", "further"),
        (("[[rendition]]", "[[rendition"), "damaged", "TOML"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: tuple[str, str], code: Code, mentioned: Any) -> None:
    (file := tmp_path / "a.toml").write_text(profile_text(PROFILE).replace(*change, 1))
    with refusal(ServiceProfileError, code, "a.toml", mentioned):
        read_profile(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with refusal(ServiceProfileError, "unreadable-file", "none.toml"):
        read_profile(tmp_path / "none.toml")
