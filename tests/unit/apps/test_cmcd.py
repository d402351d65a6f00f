# SPDX-License-Identifier: Apache-2.0
"""What a request reports by CMCD, whatever a client sends, and the manifest that requests it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from sojourn.apps.standins.paced.cmcd import reported_buffer_s, requesting_cmcd


@pytest.mark.parametrize(
    ("cmcd", "buffer_s"),
    [
        ("bl=0", 0.0),
        ("bl=11900", 11.9),
        ('bl=2100,br=2900,cid="a film",su,tb=2900', 2.1),
        ('br=2900, cid="a,\\"bl=5\\"",bl=7000', 7.0),
        ("bl=1000,bl=2000", 2.0),  # RFC 8941, 3.2: the last one counts
    ],
)
def test_a_buffer_is_in_seconds(cmcd: str, buffer_s: float) -> None:
    assert reported_buffer_s(cmcd) == buffer_s


@pytest.mark.parametrize(
    "cmcd",
    ["", ",", "=", "bl", "bl=", "bl=-1", "bl=1e3", "bl=0.5", "bl=nan", "bl=99999999", f"bl={'9' * 5000}", 'bl="5"',
     "bl=(5;v)", "bl=٣", "bl=5 ms", "BL=5", "tbl=5", 'cid="a,bl=5"', 'cid="a,bl=5', "bl=5\nbl=6", "\0", "br=1,,bl=5"],
)  # fmt: skip
def test_what_is_not_a_number_of_milliseconds_is_no_buffer(cmcd: str) -> None:
    assert reported_buffer_s(cmcd) is None


def test_a_manifest_requests_the_buffer_of_every_segment() -> None:
    mpd = '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><ServiceDescription id="0">\n</ServiceDescription></MPD>'
    found = ElementTree.fromstring(requesting_cmcd(mpd)).find(".//{*}ServiceDescription/{*}ClientDataReporting/*")
    assert found is not None and found.tag.endswith("}CMCDParameters")
    assert {
        "version": "1",
        "mode": "query",
        "keys": "bl",
        "includeInRequests": "segment",
    }.items() <= found.attrib.items()
