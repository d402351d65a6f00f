# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from sojourn.apps import SERVICES
from sojourn.apps.base import Service
from sojourn.apps.standins.call.camera import Camera
from sojourn.apps.standins.clip import Encoder
from sojourn.apps.standins.own_folder import OwnFolder
from sojourn.bottleneck.cell import Cell
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.lab.guest_job import CACHE, ERROR, EVIDENCE, JOB, SOURCES, read_job, work, write_job
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells.call_guest import read_cell, write_cell
from sojourn.harness.options.model import Options
from sojourn.harness.options.record import restored
from sojourn.harness.options.rules import parse_options
from sojourn.traffic.spec import Call
from sojourn.traffic.user_program import UserProgram

CELL = Cell(
    name="call",
    flows=dumbbell.flows(["prague", "cubic"], 20),
    hops=(dumbbell.bottleneck(50, "dualpi2"),),
    seconds=60,
    call=Call(rtt_us=20_000, ecn="ect1"),
)


def hand_over(folder: Path, **given: Any) -> bytes:
    """What goes into the machine for a user whose cache and results are below `folder`."""
    return packed(folder, parse_options({"service": "call", "results": str(folder / "results"), **given}))


def packed(folder: Path, options: Options) -> bytes:
    """The same for options that are parsed."""
    service = SERVICES[options.service].from_options(options)
    films = (folder / "cache" / "camera" / "1" / "camera.y4m", CHECKOUT / "apps")
    service._cameras = [Camera(film, 1280, 720) for film in films]  # type: ignore[attr-defined]
    folders = {folder / "results" / "run": EVIDENCE, folder / "cache": CACHE, CHECKOUT: SOURCES}
    (job := folder / "job").mkdir(parents=True)
    write_job(job, options, service, folders)
    return (job / JOB).read_bytes()


def hand_over_cell(folder: Path) -> bytes:
    """What goes into the machine for a cell."""
    (job := folder / "job").mkdir(parents=True, exist_ok=True)
    write_cell(job, CELL, 42)
    return (job / JOB).read_bytes()


def test_no_two_hosts_hand_over_other_bytes(tmp_path: Path) -> None:
    one = hand_over(tmp_path / "a", seed="7")
    other = {"repeat": "5", "engine": "tls://far:8786"}
    assert one == hand_over(tmp_path / "home" / "somebody", seed="7", **other)
    assert str(tmp_path).encode() not in one and one != hand_over(tmp_path / "b", seed="8")


def test_nothing_of_the_user_gets_in(tmp_path: Path) -> None:
    (tarball := tmp_path / "linux-secret.tar.xz").touch()
    given = {
        "lab": "sim",
        "repeat": "5",
        "kernel-source": str(tarball),
        "results": str(tmp_path / "secret" / "results"),
    }
    options = parse_options({"service": "call", **given})
    users_own = {"credentials": tmp_path / "secret.toml", "lab_file": tmp_path / "secret-lab.toml"}
    job = packed(tmp_path / "secret", options.replace(**users_own))
    assert b"secret" not in job and job == hand_over(tmp_path / "a")
    options, _ = read_job(tmp_path / "secret" / "job")
    assert (options.credentials, options.kernel_source, options.repeat, options.asked_lab) == (None, None, None, "")


def test_who_names_a_default_or_runs_again_hands_over_the_same_bytes(tmp_path: Path) -> None:
    left_out = hand_over(tmp_path / "a")
    named = {"driver": "".join(("play", "wright")), "call-ecn": "".join(("not-", "ect")), "seed": "1"}  # none interned
    assert hand_over(tmp_path / "b", **named) == left_out
    options = parse_options({"service": "call"}).replace(results=tmp_path / "c" / "results")
    assert packed(tmp_path / "c", restored(json.loads(json.dumps(options.record())))) == left_out


def test_the_order_of_hashes_does_not_matter(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; "
        "from tests.programs.harness.lab.test_guest_job import hand_over, hand_over_cell;"
        "sys.stdout.write((hand_over(Path(sys.argv[1])) + hand_over_cell(Path(sys.argv[1]))).hex())"
    )
    jobs = {
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed}, cwd=CHECKOUT, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert jobs == {(hand_over(tmp_path / "here") + hand_over_cell(tmp_path / "here")).hex()}


def test_a_cell_comes_out_as_it_went_in(tmp_path: Path) -> None:
    hand_over_cell(tmp_path)
    assert read_cell(tmp_path / "job") == (CELL, 42, [])
    program = UserProgram(
        name="program_mine", server="./mine {port}", client="./mine {address} {port}", sender="server",
        files={"mine": "12+x"},
    )  # fmt: skip
    write_cell(tmp_path / "job", CELL, 42, [program])
    assert read_cell(tmp_path / "job") == (CELL, 42, [program])


def test_paths_are_those_of_the_inside(tmp_path: Path) -> None:
    hand_over(tmp_path, qdisc="dualpi2")
    options, service = read_job(tmp_path / "job")
    assert str(options.qdisc_down) == "dualpi2" and options.results == EVIDENCE
    films = [camera.file for camera in service._cameras]  # type: ignore[attr-defined]
    assert films == [CACHE / "camera" / "1" / "camera.y4m", SOURCES / "apps"]


@pytest.mark.parametrize("name", ["youtube", "iptv", "o2tv", "sledovanitv", "call", "skype"])
def test_every_service_with_a_stand_in_can_be_handed_over(tmp_path: Path, name: str) -> None:
    options = parse_options({"service": name})
    (tmp_path / "job").mkdir()
    service = SERVICES[name].from_options(options)
    service.encoder = Encoder(version="ffmpeg 9")  # by which a second film is found in the cache
    write_job(tmp_path / "job", options, service, {})
    assert without_objects(read_job(tmp_path / "job")[1]) == without_objects(service)


def test_a_page_in_the_users_folder_is_handed_over_with_its_script(tmp_path: Path) -> None:
    """Of the folder the machine gets the cache's copy, whose name is its content's."""
    (tmp_path / "secret").mkdir()
    (page := tmp_path / "secret" / "index.html").write_text("<video>")
    (script := tmp_path / "secret" / "play.js").write_text("() => 1")
    options = parse_options({"service": "page", "url": str(page), "script": str(script)})
    service = SERVICES["page"].from_options(options)
    own = OwnFolder(tmp_path / "cache" / "own" / "1", PurePosixPath("index.html"), "1")
    service._own, service._entry = own, None  # type: ignore[attr-defined]
    (job := tmp_path / "job").mkdir()
    write_job(job, options, service, {tmp_path / "cache": CACHE})
    assert "secret" not in (job / JOB).read_text()
    inside = read_job(job)[1]
    of_guest = {"_own": replace(own, folder=CACHE / "own" / "1"), "encoder": Encoder()}
    assert without_objects(inside) == without_objects(service) | of_guest


def without_objects(service: Service) -> dict[str, Any]:
    """What a service is made of, but for what has no equal."""
    return {name: value for name, value in vars(service).items() if not isinstance(value, ExitStack)}


@pytest.mark.parametrize(("failure", "code"), [(None, 0), (RuntimeError("no route"), 1), (OSError("disk"), 1)])
def test_what_stops_the_inside_is_one_line_for_the_outside(
    tmp_path: Path, failure: Exception | None, code: int
) -> None:
    def experiment(job: Path) -> None:
        assert job == tmp_path
        if failure:
            raise failure

    assert work(tmp_path, experiment) == code
    assert (tmp_path / ERROR).exists() == bool(failure)
    if failure:
        assert (tmp_path / ERROR).read_text() == f"{type(failure).__name__}: {failure}"
