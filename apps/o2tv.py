# SPDX-License-Identifier: Apache-2.0
"""O2TV: published at 20 Mbit/s, of which CUBIC takes 16 and Prague 19."""

from collections.abc import Mapping
from typing import ClassVar

from sojourn.apps.iptv import Iptv


class O2tv(Iptv):
    """The stand-in's best rung takes 2.9 Mbit/s: it fits next to CUBIC, which shares, but not next to Prague.

    The published shares leave about 3 and 0.1 Mbit/s to the channel.
    """

    name = "o2tv"
    brand = "O2TV"
    defaults: ClassVar[Mapping[str, str]] = {**Iptv.defaults, "rate": "20mbit"}
