# SPDX-License-Identifier: Apache-2.0
"""The screen recorders, by their --recorder names."""

from __future__ import annotations

from collections.abc import Mapping

from sojourn.captures.obs import ObsRecorder
from sojourn.captures.screen import ScreenRecorder

RECORDERS: Mapping[str, type[ScreenRecorder]] = {"ffmpeg": ScreenRecorder, "obs": ObsRecorder}
