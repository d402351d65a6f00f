# SPDX-License-Identifier: Apache-2.0
"""Microsoft Teams: a meeting that guests may join by its link."""

from __future__ import annotations

from sojourn.apps.meeting import Meeting, with_query


class Teams(Meeting):
    """Its pages are described in sites/teams.toml; docs/calls.md lists possible obstacles."""

    name = "teams"
    brand = "Microsoft Teams"
    example = "https://teams.microsoft.com/l/meetup-join/…"
    hosts = ("teams.microsoft.com", "teams.live.com", "teams.cloud.microsoft")

    def address(self, guest: str) -> str:
        """The link in English, without the offer to open the desktop client."""
        return with_query(self.url, "msLaunch=false&directDl=true&suppressPrompt=true&lang=en-us")
