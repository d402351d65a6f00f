# SPDX-License-Identifier: Apache-2.0
"""The services under test, by the name that --service takes."""

from apps.base import Service
from apps.iptv import Iptv
from apps.o2tv import O2tv
from apps.sledovanitv import SledovaniTV
from apps.youtube import YouTube

SERVICES: dict[str, type[Service]] = {service.name: service for service in (YouTube, Iptv, O2tv, SledovaniTV)}
