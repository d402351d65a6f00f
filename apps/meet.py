# SPDX-License-Identifier: Apache-2.0
"""Google Meet: a meeting that guests may join by its link."""

from __future__ import annotations

from sojourn.apps.meeting import Meeting, with_query


class Meet(Meeting):
    """What is known of its pages is in sites/meet.toml; docs/calls.md has what may stand in the way."""

    name = "meet"
    example = "https://meet.google.com/abc-defg-hij"
    hosts = ("meet.google.com",)

    def address(self, guest: str) -> str:
        return with_query(self.url, "hl=en")
