# SPDX-License-Identifier: Apache-2.0
"""The user's own sender: its definition, its files in the cache, and the names that options and records have for it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from sojourn.hardware.machine.errors import Code
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import Options
from sojourn.harness.options.record import restored
from sojourn.harness.options.rules import FromFile, parse_options, spelled_programs
from sojourn.traffic.load import parse_load
from sojourn.traffic.spec import Flow
from sojourn.traffic.user_program import (
    UserProgram,
    UserProgramError,
    defined,
    is_user_program,
    read_user_program,
    versions,
)
from tests.refusals import refusal

SERVER, CLIENT = "./mine receive {port}", "./mine send {address} {port} --from={from_port} -t {seconds}"
BASE = {"server": SERVER, "client": CLIENT, "sender": "client"}


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))


def definition(folder: Path, name: str = "mine.toml", executable: bool = True, **keys: Any) -> Path:
    """Write a definition, and the program that it names, to a new folder."""
    folder.mkdir(exist_ok=True)
    (folder / "mine").write_bytes(b"a program")
    (folder / "mine").chmod(0o755 if executable else 0o644)
    (folder / "certificate.pem").write_text("a certificate")
    texts = (
        f"{key} = {value!r}" if isinstance(value, str | int | list) else "" for key, value in (BASE | keys).items()
    )
    (folder / name).write_text("\n".join(texts))
    return folder / name


def test_a_definition_is_read_with_the_files_that_its_commands_name(tmp_path: Path) -> None:
    file = definition(tmp_path / "a", client="./mine send {address} {port} certificate.pem", tcp_ecn=1, ecn="ect0")
    program = read_user_program(str(file))
    assert program.name == "program_mine" and is_user_program(program.name)
    assert (program.sender, program.tcp_ecn, program.ecn) == ("client", 1, "ect0")
    content = hashlib.sha256(b"a program").hexdigest()
    assert program.files == {
        "certificate.pem": hashlib.sha256(b"a certificate").hexdigest(), "mine": content + "+x"
    }  # fmt: skip
    assert versions([program]) == {"program mine": program.digest, "program mine: mine": content}


def test_the_run_uses_a_copy_that_later_changes_do_not_reach(tmp_path: Path) -> None:
    file = definition(tmp_path / "a")
    first = read_user_program(str(file))
    (file.parent / "mine").write_bytes(b"the next build")
    second = read_user_program(str(file))
    assert first.digest != second.digest and first.folder != second.folder
    assert (first.folder / "mine").read_bytes() == b"a program"
    assert (second.folder / "mine").read_bytes() == b"the next build"
    assert (second.folder / "mine").stat().st_mode & 0o111


def test_the_same_program_elsewhere_has_the_same_digest(tmp_path: Path) -> None:
    one, other = (read_user_program(str(definition(tmp_path / name))) for name in "ab")
    assert one.digest == other.digest
    assert read_user_program(str(definition(tmp_path / "a", tcp_ecn=0))).digest != one.digest


def test_placeholders_are_filled_in_within_words(tmp_path: Path) -> None:
    program = read_user_program(str(definition(tmp_path / "a")))
    values = {"address": "10.0.0.1", "port": 5201, "from_port": 40000, "seconds": 60}
    assert program.command("server", values) == ["./mine", "receive", "5201"]
    assert program.command("client", values) == ["./mine", "send", "10.0.0.1", "5201", "--from=40000", "-t", "60"]


def test_patterns_add_files_of_the_folder(tmp_path: Path) -> None:
    program = read_user_program(str(definition(tmp_path / "a", files=["*.pem"])))
    assert sorted(program.files) == ["certificate.pem", "mine"]


@pytest.mark.parametrize(
    ("keys", "code", "named"),
    [
        ({"server": "./nothing {port}"}, "missing-program", "server: ./nothing: no such file"),
        ({"server": "../a/../../mine {port}"}, "outside", "is outside the folder"),
        ({"server": "/bin/true {port}"}, "outside", "is outside the folder"),
        ({"client": "./mine {server} {port}"}, "invalid-value", "unknown placeholder {server}; known: {address}"),
        ({"client": "./mine {address}"}, "invalid-value", "must take {port}"),
        ({"client": "./mine 'open {port}"}, "invalid-value", "No closing quotation"),
        ({"client": " "}, "invalid-value", "client"),
        ({"sender": "both"}, "invalid-value", "sender"),
        ({"ecn": "ce"}, "invalid-value", "ecn"),
        ({"tcp_ecn": 7}, "invalid-value", "tcp_ecn"),
        ({"ready": "listening"}, "unknown-option", "ready: no such key; known: client, ecn, files, sender, server"),
        ({"files": ["*.key"]}, "missing", "'*.key': no such file"),
        ({"files": ["../*"]}, "outside", "is outside"),
        ({"files": "mine"}, "invalid-value", "give a list"),
    ],
)
def test_a_definition_that_cannot_work_is_refused(tmp_path: Path, keys: dict[str, Any], code: Code, named: str) -> None:
    file = definition(tmp_path / "a", **keys)
    with refusal(UserProgramError, code, "mine", named):
        read_user_program(str(file))


def test_a_program_that_is_not_executable_is_refused_with_the_remedy(tmp_path: Path) -> None:
    file = definition(tmp_path / "a", executable=False)
    with refusal(UserProgramError, "not-executable", f"chmod +x {file.parent / 'mine'}"):
        read_user_program(str(file))


@pytest.mark.parametrize("text", ["[server", "server = 1"])
def test_what_is_no_definition_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(UserProgramError, match=r"mine\.toml"):
        read_user_program(str(tmp_path / "mine.toml"))
    with refusal(UserProgramError, "unreadable-file", "nothing.toml", "quic-cubic"):
        read_user_program(str(tmp_path / "nothing.toml"))


def test_two_programs_of_one_name_are_refused(tmp_path: Path) -> None:
    one = read_user_program(str(definition(tmp_path / "a")))
    other = read_user_program(str(definition(tmp_path / "b", tcp_ecn=0)))
    assert defined(["cubic", one.name, one.name], [one, one]) == (one,)
    with refusal(UserProgramError, "duplicate", "'mine'"):
        defined([one.name], [one, other])
    with refusal(UserProgramError, "unknown-value", "program:mine.toml"):
        defined([one.name], [])


def test_a_load_and_a_cell_take_it() -> None:
    first, second = parse_load("program_mine@up+cubic")
    assert (first.contender, first.up, first.bulk) == ("program_mine", True, True) and second.contender == "cubic"
    assert Flow(contender="program_mine", rtt_us=20_000, up=True).contender == "program_mine"
    assert not is_user_program("program_") and not is_user_program("programs") and not is_user_program("cubic")


def test_options_name_it_by_its_file(tmp_path: Path) -> None:
    file = definition(tmp_path / "a")
    options = parse_options({"contenders": f"program:{file}*2+cubic,prague"})
    assert [phase.contender for phase in options.phases if phase.contender] == ["program_mine*2+cubic", "prague"]
    assert [program.name for program in options.programs] == ["program_mine"]
    explicit = parse_options({"timeline": f"solo:20,program:{file}:20"})
    assert explicit.phases[1].contender == "program_mine" and explicit.programs == options.programs
    assert spelled_programs(f"quic-cubic=program:{file}") == ("quic-cubic=program_mine", options.programs)


def test_a_run_without_one_has_the_record_that_it_had() -> None:
    assert "programs" not in parse_options({}).record()


def test_a_record_gives_the_same_options_and_no_path_of_the_user(tmp_path: Path) -> None:
    options = parse_options({"contenders": f"program:{definition(tmp_path / 'a')}"})
    record = options.record()
    assert str(tmp_path / "a") not in str(record["programs"])
    assert restored(record) == options
    assert Options.model_validate_json(options.for_guest(Path("/evidence")).model_dump_json()).programs


def test_a_record_does_not_start_what_never_ran_here(tmp_path: Path) -> None:
    options = parse_options({"contenders": f"program:{definition(tmp_path / 'a')}"})
    record = options.record()
    shutil.rmtree(options.programs[0].folder)
    with refusal(OptionsError, "confirm-files", "program_mine", "program:mine.toml"):
        restored(record)
    parse_options({"contenders": f"program:{tmp_path}/a/mine.toml"})
    record["programs"][0]["client"] = "sh -c 'rm -r /' {port}"
    with refusal(OptionsError, "confirm-files", "program_mine"):
        restored(record)


@pytest.mark.parametrize(
    ("given", "code", "named"),
    [
        ({"contenders": "program:{file}", "lab": "black-box"}, "unsupported", "--lab=sim"),
        ({"contenders": "program:{file}", "engine": "tls://host:8786"}, "conflict", "--engine=local"),
        ({"contenders": "program:nothing.toml"}, "unreadable-file", "nothing.toml"),
        ({"contenders": "program_mine"}, "unknown-value", "program:mine.toml"),
        ({"timeline": "solo:5,program_mine:5"}, "unknown-value", "program:mine.toml"),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path: Path, given: dict[str, str], code: Code, named: str) -> None:
    file = definition(tmp_path / "a")
    texts = {name: text.format(file=file) for name, text in given.items()}
    with refusal(OptionsError, code, "--contenders: " if "contenders" in given else "--timeline: ", named):
        parse_options(texts)


def test_a_program_has_another_ecn_mode_than_the_responsiveness_test_only_without_it(tmp_path: Path) -> None:
    file, plain = definition(tmp_path / "a", tcp_ecn=3), definition(tmp_path / "b")
    with refusal(OptionsError, "unsupported", "--contenders: ", "rpm: 1"):
        parse_options({"contenders": f"cubic+rpm+program:{file}"})
    for load in (f"cubic+program:{file}", f"rpm+program:{plain}"):
        parse_options({"contenders": load})


def test_a_file_names_no_program(tmp_path: Path) -> None:
    file = definition(tmp_path / "a")
    given = FromFile(f"program:{file}", tmp_path / "scenario.toml")
    with refusal(OptionsError, "not-from-file", "scenario.toml", "command line"):
        parse_options({"contenders": given})


def test_a_definition_has_only_files_of_its_folder() -> None:
    with pytest.raises(ValueError, match="outside the folder"):
        UserProgram.model_validate(BASE | {"name": "program_x", "files": {"../../etc/passwd": "0"}})


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    file = definition(tmp_path / "theirs", files=["data"])
    (tmp_path / "token").write_text("secret")
    (file.parent / "data").symlink_to(tmp_path / "token")
    with refusal(UserProgramError, "outside", "data leads out of the folder", "copy that file there"):
        read_user_program(str(file))
    (file.parent / "data").unlink()
    (file.parent / "data").symlink_to("certificate.pem")
    assert "data" in read_user_program(str(file)).files
