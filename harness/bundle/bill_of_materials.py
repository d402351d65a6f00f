# SPDX-License-Identifier: Apache-2.0
"""What a release contains, as a CycloneDX document: locked Python distributions, the guest's packages, kernel, players.

    python -m sojourn.harness.bundle.bill_of_materials FILE

reads what `sojourn build` has made. It needs the extra `dev`. The same parts give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from uuid import UUID, uuid5

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.markers import Marker

from sojourn.apps.players import pinned_players
from sojourn.apps.standins.origin import PLAYERS, player_version
from sojourn.hardware.images.archive import SUITE
from sojourn.hardware.images.desktop import Desktop, ensure_desktop
from sojourn.hardware.images.lock import locked_lines, required
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.files import CHECKOUT, LOCK, replace_file

#: Extras that a user may install.
_OPTIONAL = "browsers", "figures", "players", "dask", "labgrid", "vmaf"
#: Where a release is installed, in the words of environment markers.
_PLACES = [
    {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux", "implementation_name": "cpython",
     "platform_python_implementation": "CPython", "python_version": text, "python_full_version": f"{text}.0"}
    for text in ("3.11", "3.14")
]  # fmt: skip
#: Makes a document's serial number from its content.
_NAMESPACE = UUID("6f6a1f0c-55b1-4f5f-9a2e-0d8c7a5b3e21")


def document(
    project: str,
    lock: str,
    kernel: Kernel,
    desktop: Desktop,
    players: Mapping[str, str],
    when: datetime,
    release: str,
) -> str:
    """Return the document of a `release` as JSON in CycloneDX 1.6.

    Args:
        project: text of pyproject.toml.
        lock: text of requirements.txt.
        players: versions of the packages of npm, by name.
        when: date of the release.
    """
    own = Component(
        name="sojourn", version=release, type=ComponentType.APPLICATION, bom_ref="sojourn",
        licenses=[LicenseExpression("Apache-2.0")], purl=PackageURL("pypi", name="sojourn", version=release),
    )  # fmt: skip
    needed = pins(locked_lines(required(project, ["runtime"]), lock))
    further = {
        name: it for name, it in pins(locked_lines(required(project, _OPTIONAL), lock)).items() if name not in needed
    }
    python = [_python(*pin) for pin in needed.items()]
    optional = [_python(*pin, scope=ComponentScope.OPTIONAL) for pin in further.items()]
    linux = Component(
        name="linux", version=kernel.version, type=ComponentType.OPERATING_SYSTEM, bom_ref="kernel",
        licenses=[LicenseExpression("GPL-2.0-only WITH Linux-syscall-note")],
        purl=PackageURL("generic", name="linux", version=kernel.version),
        properties=[
            Property(name="sojourn:source", value=kernel.source), Property(name="sojourn:build", value=kernel.digest),
        ],
    )  # fmt: skip
    guest = Component(
        name="guest with browser", version=desktop.digest, type=ComponentType.OPERATING_SYSTEM, bom_ref="guest",
        components=_guest(desktop.versions),
        properties=[Property(name=f"sojourn:{name}", value=text) for name, text in _dates(desktop.versions)],
    )  # fmt: skip
    scripts = [
        Component(name=name, version=text, bom_ref=f"npm/{name}", purl=PackageURL("npm", name=name, version=text))
        for name, text in players.items()
    ]
    made = Bom(
        components=[*python, *optional, linux, guest, *scripts], metadata=BomMetaData(component=own, timestamp=when)
    )
    made.register_dependency(own, [*python, *optional, linux, guest, *scripts])
    made.register_dependency(guest, guest.components)
    return _text(made, uuid5(_NAMESPACE, _text(made, UUID(int=0))))


def pins(lines: str) -> dict[str, str]:
    """Return the versions of the distributions that lines of a lock pin for CPython on Linux, by name."""
    found = re.findall(r"(?m)^([\w.-]+)(?:\[[^\]]*\])?==([^\s;]+)(?: ; ([^\\\n]*))?", lines)
    return {name: text for name, text, marker in found if not marker or any(map(Marker(marker).evaluate, _PLACES))}


def _text(made: Bom, number: UUID) -> str:
    made.serial_number = number
    return JsonV1Dot6(made).output_as_string(indent=1) + "\n"


def _python(name: str, text: str, prefix: str = "", scope: ComponentScope = ComponentScope.REQUIRED) -> Component:
    purl = PackageURL("pypi", name=name.replace("_", "-").lower(), version=text)
    return Component(name=name, version=text, bom_ref=f"{prefix}pypi/{name}", purl=purl, scope=scope)


def _guest(versions: Mapping[str, str]) -> Iterable[Component]:
    """Yield the packages and distributions of a guest."""
    for name, text in versions.items():
        if name.startswith("python "):
            yield _python(name.removeprefix("python "), text, "guest/")
        elif not name.startswith("archive of "):
            where = {"arch": "amd64", "distro": SUITE}
            purl = PackageURL("deb", "debian", name, text, where)
            yield Component(name=name, version=text, bom_ref=f"guest/deb/{name}", purl=purl)


def _dates(versions: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, text) for name, text in versions.items() if name.startswith("archive of ")]


def main() -> None:
    """Write the document of this checkout's release to a file; its date is SOURCE_DATE_EPOCH."""
    words = argparse.ArgumentParser(description=main.__doc__)
    words.add_argument("file", type=Path)
    file: Path = words.parse_args().file
    players = {name: player_version(name).partition(" ")[2] for name in PLAYERS} | pinned_players()
    text = document(
        (CHECKOUT / "pyproject.toml").read_text(), LOCK.read_text(), ensure_kernel(), ensure_desktop(), players,
        datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC), version("sojourn"),
    )  # fmt: skip
    replace_file(file, text.encode())
    print(f"{file}: {len(json.loads(text)['components'])} components")


if __name__ == "__main__":
    main()
