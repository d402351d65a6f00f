# SPDX-License-Identifier: Apache-2.0
"""Harm to video: what a CUBIC and a Prague download do to the video that somebody watches ("L4S Tests", the table
"Harm to Video Streaming Services")."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.experiment
def test_video_harm(experiment: Callable[..., None]) -> None:
    experiment("video-harm")
