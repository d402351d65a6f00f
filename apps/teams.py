# SPDX-License-Identifier: Apache-2.0
"""Microsoft Teams: a meeting that guests may join by its link."""

from __future__ import annotations

from apps.meeting import Meeting, MeetingSite


class Teams(Meeting):
    """Selectors of the web client of 2025; docs/calls.md has what may stand in the way."""

    name = "teams"
    example = "https://teams.microsoft.com/l/meetup-join/…"
    hosts = ("teams.microsoft.com", "teams.live.com", "teams.cloud.microsoft")
    site = MeetingSite(
        leave='#hangup-button, [data-tid="hangup-main-btn"], [data-tid="call-hangup"]',
        press=(
            '[data-tid="joinOnWeb"]',
            '[data-tid="toggle-mute"]:checked, [data-tid="toggle-mute"][aria-checked="true"]',
            '[data-tid="prejoin-join-button"]',
        ),
        words="continue on this browser",
        guest='[data-tid="prejoin-display-name-input"]',
        lobby="let you in|in the lobby|admits? you|waiting to be admitted|hasn't started|request to join has been sent",
        refused="denied access|weren't admitted|denied your request|been removed|sign in to join|meeting has ended"
        "|call ended|isn't available to guests|couldn't connect you|link (?:is|isn't) (?:invalid|valid)",
    )

    def address(self, guest: str) -> str:
        """Without the offer to open the desktop's client."""
        link, _, rest = self.url.partition("#")
        more = "msLaunch=false&directDl=true&suppressPrompt=true"
        return f"{link}{'&' if '?' in link else '?'}{more}" + (f"#{rest}" if rest else "")
