# SPDX-License-Identifier: Apache-2.0
"""`lab.toml`: the machines of a physical lab, read and checked as a whole before anything starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.files import distrust, expanded
from sojourn.hardware.machine.ip import IpVersion, ip_version
from sojourn.hardware.machine.messages import did_you_mean
from sojourn.hardware.machine.toml_file import TomlError, read_toml

ROUTER_LAB, BOX_LAB = "apu", "black-box"
PHYSICAL = (ROUTER_LAB, BOX_LAB)
"""The labs that a lab file describes: one with a Linux router, one with a box between two captures."""
LABS = ("sim", "virtual", *PHYSICAL)
"""All labs."""
#: The hosts on the router's LAN side and on its WAN side.
NEAR, FAR = ("client", "receiver"), ("server", "sender")
HOSTS = NEAR + FAR
DEAD_MAN_S = 20
"""The default of `dead_man_s`, and its value in a lab without a router."""
ACTION = "{action}"
"""Placeholder for the action in a power command."""


class LabFileError(CodedError):
    """A lab file is missing or wrong; the message is one line with the entry, what is wrong and what would be right."""


def _ssh_name(text: str) -> str:
    if not text or text.startswith("-") or re.search(r"\s", text):
        raise ValueError(f"{text!r} is not an ssh destination; give what you type after `ssh`, without options")
    return text


def _interface(text: str) -> str:
    if not re.fullmatch(r"[^\s/:-][^\s/:]{0,14}", text):
        raise ValueError(f"{text!r} is not an interface name; `ip -br link` on that machine lists them")
    return text


def _address(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address; give one without a prefix length") from None
    if isinstance(address, IPv6Address) and (address.is_link_local or address.scope_id):
        raise ValueError(f"{text!r} is link-local and not forwarded by routers; give a unique local or global one")
    return str(address)


def _command(words: list[str]) -> list[str]:
    if not words or not words[0]:
        raise ValueError("the command is empty; give the program and its arguments as a list of strings")
    return words


def _power(words: list[str]) -> list[str]:
    if not any(ACTION in word for word in _command(words)):
        raise ValueError(f"the command does not contain {ACTION}, which is replaced by on, off, cycle or get")
    return words


def _file(path: Path, info: ValidationInfo) -> Path:
    """Paths are relative to the lab file, not to the working directory."""
    file = (info.context or {}).get("folder", Path()) / expanded(str(path))
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    return Path(file)


def _no_nat(masquerades: bool) -> bool:
    if masquerades:
        raise ValueError(
            "with NAT, no bulk flow can be opened towards the hidden side, and packets have different addresses in the "
            "two captures; let the box route or bridge"
        )
    return masquerades


SshName = Annotated[str, AfterValidator(_ssh_name), Field(examples=["root@apu"])]
InterfaceName = Annotated[str, AfterValidator(_interface), Field(examples=["enp2s0"])]
Address = Annotated[str, AfterValidator(_address), Field(examples=["10.42.1.10"])]
BoxName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[ -~]*$", examples=["vendor CPE 1.2"])]
File = Annotated[Path, AfterValidator(_file)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Labgrid(_Entry):
    """A target of a labgrid environment file: its power and its console."""

    environment: Annotated[File, Field(strict=False, examples=["apu.yaml"])]
    target: str = "main"


class MachineEntry(_Entry):
    """A machine's power switch and serial console; both are optional."""

    power: Annotated[list[str], AfterValidator(_power)] | None = None
    """A command of this host; `{action}` is on, off, cycle or get (succeeds if the switch responds)."""
    serial: Annotated[list[str], AfterValidator(_command)] | None = None
    """A command of this host that connects its stdin and stdout to the console."""
    labgrid: Labgrid | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.labgrid and (self.power or self.serial):
            raise ValueError("both labgrid and power or serial are given; remove one")
        return self


class RouterEntry(MachineEntry):
    """The router: what to type after `ssh`, and its interfaces towards the client and towards the server."""

    ssh: SshName
    lan: InterfaceName
    wan: Annotated[InterfaceName, Field(examples=["enp3s0"])]
    nat: bool = False
    """Client and receiver reach the internet through it: it masquerades their packets, and shapes no others."""
    dead_man_s: Annotated[int, Field(ge=10, le=600)] = DEAD_MAN_S
    """Seconds without contact after which the router and the hosts undo by themselves what Sojourn changed."""

    @model_validator(mode="after")
    def _two_sides(self) -> Self:
        if self.lan == self.wan:
            raise ValueError(f"lan and wan are both {self.lan!r}; give a different interface for each side")
        return self


class BoxEntry(MachineEntry):
    """A device under test that is neither configured nor read: what its user knows about it."""

    name: BoxName = "box"
    """Its name in the evidence."""
    nat: Annotated[bool, AfterValidator(_no_nat)] = False


class HostEntry(MachineEntry):
    """A host: what to type after `ssh` (none: this host), its address, and the interface to capture on.

    `netns` is a network namespace of this host (`ip netns`) that acts as a separate host.
    """

    ssh: SshName | None = None
    netns: Annotated[str, Field(pattern=r"^[^\s/]+$")] | None = None
    address: Address
    interface: InterfaceName | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.ssh and self.netns:
            raise ValueError("both ssh and netns are given; a namespace is always on this host, so remove one")
        return self


class LabFile(_Entry):
    """One table per machine, with either `router` or `box`. `ssh_config` replaces the user's own ssh configuration."""

    ssh_config: Annotated[File, Field(strict=False)] | None = None
    router: RouterEntry | None = None
    box: Annotated[BoxEntry | None, Field(validate_default=True)] = None
    client: HostEntry
    receiver: HostEntry
    server: HostEntry
    sender: HostEntry

    @property
    def lab(self) -> str:
        """The lab that it describes: ROUTER_LAB or BOX_LAB."""
        return BOX_LAB if self.box else ROUTER_LAB

    @property
    def hosts(self) -> dict[str, HostEntry]:
        """The hosts by their name in the file, starting with those on the router's LAN side."""
        return {name: getattr(self, name) for name in HOSTS}

    @property
    def ip_version(self) -> IpVersion:
        """The IP version of all its addresses."""
        return ip_version(self.client.address)

    @property
    def machines(self) -> dict[str, MachineEntry]:
        """The router or the box, and the hosts, by their name in the file."""
        middle: dict[str, MachineEntry | None] = {"router": self.router, "box": self.box}
        return {name: machine for name, machine in middle.items() if machine} | self.hosts

    @property
    def stand_in_problem(self) -> str | None:
        """Why its server can be neither a stand-in nor the far end of a call; None if it can."""
        if not self.server.ssh:
            return None
        return (
            "[server] ssh: stand-ins and the far end of a call run on this machine, from its files; give netns instead "
            "of ssh, or use --service=game or a matrix without calls"
        )

    def require_stand_ins(self, named: Path | None) -> None:
        """Raise LabFileError, with the name of this file, if its server can be no stand-in."""
        if why := self.stand_in_problem:
            raise LabFileError(f"--lab-file: {named}: {why}", code="unsupported")

    @field_validator("box")
    @classmethod
    def _either_router_or_box(cls, box: BoxEntry | None, info: ValidationInfo) -> BoxEntry | None:
        if "router" in info.data and (box is None) == (info.data["router"] is None):
            raise ValueError("exactly one of [router] and [box] is required")
        return box

    @model_validator(mode="after")
    def _client_is_here(self) -> Self:
        if self.client.ssh:
            raise ValueError("[client] ssh: the client is this machine; omit ssh, or give netns")
        return self

    @model_validator(mode="after")
    def _one_ip_version(self) -> Self:
        for name, host in self.hosts.items():
            if (its := ip_version(host.address)) != self.ip_version:
                raise ValueError(
                    f"client has an IPv{self.ip_version} address, {name} an IPv{its} address; use one version for all"
                )
        if self.router and self.router.nat and self.ip_version == 6:
            raise ValueError("[router] nat supports IPv4 only; remove it, or give the hosts IPv4 addresses")
        return self

    @model_validator(mode="after")
    def _behind_both_sides(self) -> Self:
        for near in ("client", "receiver"):
            for far in ("server", "sender"):
                if (both := self.hosts[near].address) == self.hosts[far].address:
                    raise ValueError(f"{near} and {far} both have the address {both}; the router must be between them")
        for name in ("client", "server"):
            if self.box and not self.hosts[name].interface:
                raise ValueError(
                    f'[{name}] interface: is missing, because a box cannot capture; give one such as interface = "eno1"'
                )
        for tap, bulk in (NEAR, FAR):
            one, other = self.hosts[tap], self.hosts[bulk]
            if self.router and one.interface and (one.ssh, one.netns) != (other.ssh, other.netns):
                raise ValueError(
                    f"[{tap}] interface: does not see the bulk flow of the {bulk}, which is another machine; omit it, "
                    "and packets are captured at the router"
                )
        if all(self.hosts[one].address == self.hosts[other].address for one, other in (NEAR, FAR)):
            raise ValueError(
                "client and receiver share an address, and server and sender do too, so the bulk flow looks like the "
                "film; give the receiver another address (`ip address add`)"
            )
        return self


_NO_TABLE = " is missing"


def read_lab_file(path: Path, lab: str = "") -> LabFile:
    """Read and check a lab file. Raises `LabFileError`, also if it describes another lab than `lab`, if given."""
    try:
        if not path.is_absolute() and (why := distrust(path)):
            raise LabFileError(f"--lab-file: {path}: {why}", code="untrusted-file")
        raw = read_toml(path)
        file = LabFile.model_validate(raw, context={"folder": path.absolute().parent})
    except OSError as missing:
        raise LabFileError(
            f"--lab-file: {path}: {missing.strerror}; create one with `sojourn lab init`", code="unreadable-file"
        ) from missing
    except TomlError as broken:
        raise LabFileError(f"--lab-file: {path}: {broken}", code="unreadable-file") from broken
    except ValidationError as wrong:
        errors = [_error_text(error) for error in wrong.errors()]
        if any(error.endswith(_NO_TABLE) or error.startswith("[box]: exactly") for error in errors):
            errors.append("`sojourn lab init` creates a complete file; see docs/physical-lab.md")
        raise LabFileError(f"--lab-file: {path}: {'; '.join(errors)}", code="invalid-value") from wrong
    if lab and file.lab != lab:
        has, needed = ("[box]", "[router]") if file.box else ("[router]", "[box]")
        raise LabFileError(
            f"--lab-file: {path}: describes a {has}; use --lab={file.lab}, or give a file with a {needed}",
            code="conflict",
        )
    return file


def _error_text(error: ErrorDetails) -> str:
    """Return one error as `[table] key: what is wrong; what would be right`."""
    where = [str(part) for part in error["loc"] if not isinstance(part, int)]
    fields = _fields(where[:-1])
    name = _entry(where, table="model" in error["type"] or _fields(where) is not None)
    match error["type"]:
        case "missing" if _fields(where) is not None:
            return name + _NO_TABLE
        case "missing":
            example = next(iter((fields or {})[where[-1]].examples or []), None)
            return f"{name}: is missing" + (f", such as {where[-1]} = {json.dumps(example)}" if example else "")
        case "extra_forbidden":
            known = list(fields or {})
            return f"{name}: is unknown; {did_you_mean(where[-1], known) or 'known: ' + ', '.join(known)}"
        case "value_error":
            return f"{name}: {error['ctx']['error']}" if name else str(error["ctx"]["error"])
    return f"{name}: {error['msg']}, found {json.dumps(error['input'], default=str)}"


def _entry(where: Sequence[str], table: bool) -> str:
    if table or not where:
        return f"[{'.'.join(where)}]" if where else ""
    *tables, key = where
    return f"[{'.'.join(tables)}] {key}" if tables else key


def _fields(tables: Iterable[str]) -> dict[str, Any] | None:
    """Return the fields of the table of this name; None if there is no such table."""
    model: Any = LabFile
    for name in tables:
        field = model.model_fields.get(name)
        kinds = [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
        if model is None:
            return None
    return dict(model.model_fields)
