# SPDX-License-Identifier: Apache-2.0
"""O2TV: published with 20 Mbit/s, CUBIC taking 16 and Prague 19 of it."""

from collections.abc import Mapping
from typing import ClassVar

from sojourn.apps.iptv import Iptv


class O2tv(Iptv):
    """The stand-in's best rung takes 2.9 Mbit/s: it fits beside CUBIC, which shares, and not beside Prague.

    The published shares leave the channel about 3 and 0.1 Mbit/s.
    """

    name = "o2tv"
    defaults: ClassVar[Mapping[str, str]] = {**Iptv.defaults, "rate": "20mbit"}
