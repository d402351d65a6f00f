# SPDX-License-Identifier: Apache-2.0
"""The ports of the board image are called the same by the image, the documentation and the example lab files.

Who copies an example for a flashed router must not shape the port by which he logs in.
"""

from __future__ import annotations

import re
import tomllib
from configparser import ConfigParser
from typing import Any

import pytest

from sojourn.hardware.lab.lab_file import RouterEntry
from sojourn.hardware.machine.files import CHECKOUT

IMAGE = CHECKOUT / "hardware" / "userland" / "router"
DOCS = CHECKOUT / "docs"
EXAMPLES = sorted((DOCS / "examples" / "labs").glob("*.toml"))


def networks() -> dict[str, ConfigParser]:
    """What systemd-networkd does with each port of the image, by its role."""
    found = {}
    for file in sorted((IMAGE / "etc/systemd/network").glob("*.network")):
        parser = ConfigParser(strict=False)
        parser.read(file)
        found[file.stem.partition("-")[2]] = parser
    return found


PORTS = {role: network["Match"]["Name"] for role, network in networks().items()}
SIDES = {"lan", "wan"}


def shown(page: str) -> dict[str, Any]:
    """The lab file that a page shows whole."""
    (text,) = re.findall(r"```toml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return tomllib.loads(text)


LABS = {file.name: tomllib.loads(file.read_text()) for file in EXAMPLES} | {
    page: shown(page) for page in ("physical-lab.md", "black-box.md")
}


def test_the_image_has_three_ports_and_says_so_everywhere() -> None:
    assert set(PORTS) == {"management", *SIDES} and len(set(PORTS.values())) == 3
    check = (IMAGE / "usr/local/sbin/sojourn-check").read_text()
    assert f"for port in {' '.join(f'{role}:{name}' for role, name in PORTS.items())}; do" in check
    assert f"--interface={PORTS['management']} " in (IMAGE / "etc/systemd/system/sojourn-check.service").read_text()
    assert set(re.findall(r"{(\w+)}", (IMAGE / "etc/issue").read_text())) == {PORTS["management"]}


def test_the_page_of_the_image_names_its_ports_and_addresses() -> None:
    page = (DOCS / "hardware.md").read_text()
    of = {role: networks()[role]["Network"]["Address"] for role in SIDES}
    assert f"| ports | `{PORTS['management']}` management (" in page
    for role in SIDES:
        assert f"`{PORTS[role]}` **{role}** {of[role]}" in page
        assert f'`{role} = "{PORTS[role]}"`' in page
    apu = next(file for file in EXAMPLES if file.stem == "one-pc-one-apu").read_text()
    assert f"# On the APU: {PORTS['lan']} has {of['lan']}, {PORTS['wan']} has {of['wan']}," in apu


@pytest.mark.parametrize("name", [name for name, lab in LABS.items() if "router" in lab])
def test_an_example_of_a_router_names_the_ports_of_the_image(name: str) -> None:
    assert {side: LABS[name]["router"][side] for side in SIDES} == {side: PORTS[side] for side in SIDES}


@pytest.mark.parametrize("name", LABS)
def test_no_example_measures_at_the_management_port(name: str) -> None:
    named = [entry.get(key) for entry in LABS[name].values() for key in ("lan", "wan", "interface")]
    assert PORTS["management"] not in named


def test_who_leaves_a_port_out_is_shown_the_images() -> None:
    fields = RouterEntry.model_json_schema()["properties"]
    assert {side: fields[side]["examples"] for side in SIDES} == {side: [PORTS[side]] for side in SIDES}
