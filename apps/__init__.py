# SPDX-License-Identifier: Apache-2.0
"""The services under test by their --service name. Each file here may define some; other packages may add more."""

from collections.abc import Iterator, Mapping
from importlib import import_module

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
#: Module and class of services that are loaded on first use, so that the start of any other run reads the same files
#: at the same simulated times.
_LATER = {
    "profile": ("sojourn.apps.standins.profile.service", "RecordedService"),
    "sabr": ("sojourn.apps.standins.sabr.service", "SabrStandIn"),
}


class _Services(Mapping[str, type[Service]]):
    """The services by name; those of `_LATER` are loaded when they are looked up."""

    def __init__(self, loaded: Mapping[str, type[Service]]) -> None:
        self._loaded = dict(loaded)

    def __getitem__(self, name: str) -> type[Service]:
        if name in _LATER and name not in self._loaded:
            module, kind = _LATER[name]
            self._loaded[name] = getattr(import_module(module), kind)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in _LATER

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._loaded, *_LATER]))

    def __len__(self) -> int:
        return len(self._loaded.keys() | _LATER.keys())


SERVICES: Mapping[str, type[Service]] = _Services(merge_with_builtin(_OURS, _THEIRS, "sojourn.services"))
