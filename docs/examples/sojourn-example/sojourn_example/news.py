# SPDX-License-Identifier: Apache-2.0
"""A news channel: two rungs, on a slow line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sojourn.apps.iptv import Iptv


class News(Iptv):
    """Everything else, from the stand-in's page to the live login, is television's."""

    name = "news"
    defaults: ClassVar[Mapping[str, str]] = {**Iptv.defaults, "rate": "4mbit"}
    rungs = (0, 1)
    home = "https://news.example/live"
