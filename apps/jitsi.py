# SPDX-License-Identifier: Apache-2.0
"""Jitsi Meet: a room of any server."""

from __future__ import annotations

import json
from urllib.parse import quote

from sojourn.apps.meeting import Meeting, with_query

#: Laid over the server's config.js, as far as its configWhitelist.ts lets a link do so.
CONFIG = {
    "config.prejoinConfig.enabled": False,
    "config.prejoinPageEnabled": False,  # older servers
    "config.disableDeepLinking": True,
    "config.defaultLanguage": "en",
    "config.requireDisplayName": False,
    "config.autoKnockLobby": True,
    "config.startWithAudioMuted": True,  # see docs/calls.md for why a call has no sound
    "config.disableSelfView": True,  # what it costs to draw
    "config.p2p.enabled": False,  # over the videobridge, as every meeting of more than two
}


class Jitsi(Meeting):
    """What stands behind # in the link goes before what we ask for: #config.p2p.enabled=true calls directly."""

    name = "jitsi"
    example = "https://meet.example.org/Room"

    def address(self, guest: str) -> str:
        link, _, own = self.url.partition("#")
        asked = CONFIG | {"userInfo.displayName": guest}
        config = [*(f"{key}={quote(json.dumps(value))}" for key, value in asked.items()), own]
        return f"{with_query(link, 'lang=en')}#{'&'.join(config)}"
