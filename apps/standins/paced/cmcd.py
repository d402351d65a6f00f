# SPDX-License-Identifier: Apache-2.0
"""Common Media Client Data (CTA-5004): a manifest that requests it, and what a request reports. Pure."""

from __future__ import annotations

import re

#: A member of a dictionary of Structured Fields (RFC 8941, 3.2): its key, and its value, a string in quotes or a token.
_MEMBER = re.compile(r'([a-z*][\w.*-]*)(?:=("(?:[^"\\]|\\.)*"|[^,"]*))?(?:,\s*|$)')
#: Milliseconds, up to 2.7 hours.
_LENGTH = re.compile(r"[0-9]{1,7}")
#: ISO/IEC 23009-1 has client data reporting; the scheme is that of CTA-5004.
_REPORTING = (
    '<ClientDataReporting><CMCDParameters schemeIdUri="urn:mpeg:dash:cta-5004:2023" version="1" mode="query" '
    'includeInRequests="segment" keys="bl" contentID="sojourn" sessionID="sojourn"/></ClientDataReporting>'
)


def requesting_cmcd(mpd: str) -> str:
    """Return a manifest, as ffmpeg writes it, that requests the buffer's length in the query of every segment."""
    text, count = re.subn(r'<ServiceDescription id="0">', rf"\g<0>{_REPORTING}", mpd)
    assert count == 1, "ffmpeg's MPD has a service description"
    return text


def reported_buffer_s(cmcd: str) -> float | None:
    """Return the buffer's length (`bl`) in a request's CMCD, s; None if it reports none, or not a number of ms."""
    length, at = "", 0
    while at < len(cmcd):
        if not (member := _MEMBER.match(cmcd, at)):
            return None
        length, at = (member[2] or "") if member[1] == "bl" else length, member.end()
    return int(length) / 1000 if _LENGTH.fullmatch(length) else None
