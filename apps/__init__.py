# SPDX-License-Identifier: Apache-2.0
"""The services under test by their --service name. Each file here may define some; other packages may add more."""

from sojourn.apps.base import Service
from sojourn.hardware.machine.discovery import defined_in
from sojourn.hardware.machine.plugins import merge_with_builtin, offered

_OURS: dict[str, type[Service]] = {
    service.name: service
    for service in defined_in(__name__, __path__)
    if isinstance(service, type) and issubclass(service, Service) and "name" in vars(service)
}
_THEIRS: dict[str, type[Service]] = {
    service.name: service for service in offered("sojourn.services", type) if issubclass(service, Service)
}
SERVICES = merge_with_builtin(_OURS, _THEIRS, "sojourn.services")
