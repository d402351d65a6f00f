# SPDX-License-Identifier: Apache-2.0
"""Google Meet: a meeting that guests may join by its link."""

from __future__ import annotations

from sojourn.apps.meeting import Meeting, with_query


class Meet(Meeting):
    """Its pages are described in sites/meet.toml; docs/calls.md lists possible obstacles."""

    name = "meet"
    brand = "Google Meet"
    example = "https://meet.google.com/abc-defg-hij"
    hosts = ("meet.google.com",)

    def address(self, guest: str) -> str:
        return with_query(self.url, "hl=en")
