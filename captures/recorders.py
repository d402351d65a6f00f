# SPDX-License-Identifier: Apache-2.0
"""What can record a screen, by the names of --recorder."""

from __future__ import annotations

from collections.abc import Mapping

from sojourn.captures.obs import ObsRecorder
from sojourn.captures.screen import ScreenRecorder

RECORDERS: Mapping[str, type[ScreenRecorder]] = {"ffmpeg": ScreenRecorder, "obs": ObsRecorder}
