# SPDX-License-Identifier: Apache-2.0
"""O2TV: published with 20 Mbit/s, CUBIC taking 16 and Prague 19 of it."""

from collections.abc import Mapping
from typing import ClassVar

from apps.iptv import Iptv


class O2tv(Iptv):
    """Its best rung takes 3.4 Mbit/s: less than half of what CUBIC leaves a fair flow, more than Prague leaves."""

    name = "o2tv"
    defaults: ClassVar[Mapping[str, str]] = {**Iptv.defaults, "rate": "20mbit"}
    home = "https://www.o2tv.cz/"
