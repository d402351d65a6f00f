# SPDX-License-Identifier: Apache-2.0
"""Jitsi Meet: a room on any server."""

from __future__ import annotations

import json
from urllib.parse import quote

from sojourn.apps.meeting import Meeting, with_query

#: Overrides the server's config.js, as far as configWhitelist.ts permits in a link.
CONFIG = {
    "config.prejoinConfig.enabled": False,
    "config.prejoinPageEnabled": False,  # older servers
    "config.disableDeepLinking": True,
    "config.defaultLanguage": "en",
    "config.requireDisplayName": False,
    "config.autoKnockLobby": True,
    "config.startWithAudioMuted": True,  # see docs/calls.md for why a call has no sound
    "config.disableSelfView": True,  # saves its drawing cost
    "config.p2p.enabled": False,  # through the videobridge, like every meeting of more than two
}


class Jitsi(Meeting):
    """Settings after # in the link override these: #config.p2p.enabled=true makes a direct call."""

    name = "jitsi"
    brand = "Jitsi Meet"
    example = "https://meet.example.org/Room"

    def address(self, guest: str) -> str:
        link, _, own = self.url.partition("#")
        settings = CONFIG | {"userInfo.displayName": guest}
        config = [*(f"{key}={quote(json.dumps(value))}" for key, value in settings.items()), own]
        return f"{with_query(link, 'lang=en')}#{'&'.join(config)}"
