# SPDX-License-Identifier: Apache-2.0
"""Google Meet: a meeting that guests may join by its link."""

from __future__ import annotations

from apps.meeting import Meeting, MeetingSite


class Meet(Meeting):
    """Its class names change with each release: buttons are known by what they say; docs/calls.md has the rest."""

    name = "meet"
    example = "https://meet.google.com/abc-defg-hij"
    hosts = ("meet.google.com",)
    site = MeetingSite(
        leave='[aria-label^="Leave call"]',
        press=('[aria-label^="Turn off microphone"]',),
        words="got it|use without an account|ask to join|join now|join anyway",
        guest='input[aria-label="Your name"], input[placeholder="Your name"]',
        lobby="asking to (?:be let in|join)|when someone lets you in|until a meeting host",
        refused="can't join this|denied your request|no one responded|aren't allowed to join|check your meeting code"
        "|removed (?:you )?from the|call (?:has )?ended|meeting has ended|sign in to join",
    )

    def address(self, guest: str) -> str:
        return f"{self.url}{'&' if '?' in self.url else '?'}hl=en"
