# SPDX-License-Identifier: Apache-2.0
"""SledovaniTV: published at 5 Mbit/s, of which CUBIC takes 3.9 and Prague 4.6."""

from collections.abc import Mapping
from typing import ClassVar

from sojourn.apps.iptv import Iptv


class SledovaniTV(Iptv):
    """Its best rung takes 1.5 Mbit/s."""

    name = "sledovanitv"
    brand = "SledovaniTV"
    defaults: ClassVar[Mapping[str, str]] = {**Iptv.defaults, "rate": "5mbit"}
    rungs = (0, 1, 2)
