# SPDX-License-Identifier: Apache-2.0
"""The services under test, by the name that --service takes."""

from apps.base import Service
from apps.call import BrowserCall, Skype
from apps.iptv import Iptv
from apps.jitsi import Jitsi
from apps.meet import Meet
from apps.o2tv import O2tv
from apps.sledovanitv import SledovaniTV
from apps.teams import Teams
from apps.youtube import YouTube

_ALL: tuple[type[Service], ...] = (YouTube, Iptv, O2tv, SledovaniTV, BrowserCall, Skype, Jitsi, Meet, Teams)
SERVICES = {service.name: service for service in _ALL}
