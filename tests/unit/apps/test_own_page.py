# SPDX-License-Identifier: Apache-2.0
"""An address that is none is refused in one line, whatever is wrong with it."""

from __future__ import annotations

import pytest

from sojourn.apps.base import ServiceError
from sojourn.apps.iptv import is_address
from sojourn.apps.jitsi import Jitsi
from sojourn.apps.own_page import OwnPage

WRONG = "http://[abc", "https://h:99999/", "https://h:0/", "ftp://h/", "https:///path", "page.html"


@pytest.mark.parametrize("url", WRONG)
def test_a_malformed_address_is_refused(url: str) -> None:
    assert not is_address(url)
    with pytest.raises(ServiceError, match="is not an http or https address"):
        OwnPage(url=url)
    with pytest.raises(ServiceError, match="is not a jitsi meeting link"):
        Jitsi(url)
