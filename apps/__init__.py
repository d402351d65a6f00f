# SPDX-License-Identifier: Apache-2.0
"""The services under test, by the name that --service takes; each file here may define some."""

from apps.base import Service
from hardware.machine.discovery import defined_in

SERVICES: dict[str, type[Service]] = {
    service.name: service
    for service in defined_in(__name__, __path__)
    if isinstance(service, type) and issubclass(service, Service) and "name" in vars(service)
}
