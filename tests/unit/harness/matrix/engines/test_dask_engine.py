# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from distributed.comm import CommClosedError

from sojourn.harness.matrix import matrix_plan
from sojourn.harness.matrix.cells import simulated_call
from sojourn.harness.matrix.engines import dask_engine
from sojourn.harness.matrix.engines.dask_engine import check_workers, packed, unpack
from sojourn.harness.matrix.engines.engine import EngineError
from tests.test_call_backoff import MATRIX


class Client:
    """A cluster of workers that answer as told."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def run(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self.answers


def test_a_worker_that_is_not_as_this_machine_is_refused_by_name() -> None:
    check_workers(Client(one="same", two="same"), "same", str)
    with pytest.raises(EngineError, match="--engine: worker two: its kernel, guest or Sojourn is not this machine's"):
        check_workers(Client(one="same", two="other"), "same", str)
    with pytest.raises(EngineError, match="--engine: worker one cannot run this: OSError: no space"):
        check_workers(Client(one=OSError("no space")), "same", str)


def test_a_worker_that_is_lost_as_it_is_asked_is_passed_over() -> None:
    check_workers(Client(one=CommClosedError("Stream is closed"), two="same"), "same", str)


def test_a_folder_comes_back_as_it_was(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "here" / "deep").mkdir()
    (tmp_path / "here" / "deep" / "file").write_bytes(bytes(range(256)) * 100)
    unpack(packed(tmp_path / "here"), tmp_path / "there")
    assert (tmp_path / "there" / "deep" / "file").read_bytes() == bytes(range(256)) * 100


def archive(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return content.getvalue()


WHOLE = archive(flows=bytes(range(256)) * 40)
LINK = zipfile.ZipInfo("link")
LINK.external_attr = 0o120777 << 16


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (None, "no archive"),
        (["flows.csv"], "no archive"),
        (b"", "no archive"),
        (b"\0" * 4096, "no archive"),
        (WHOLE[:-30], "no archive"),
        (WHOLE[:40] + bytes(40) + WHOLE[80:], "no archive"),
        (archive(**{"../out": b""}), r"leads out of its run: '\.\./out'"),
        (archive(**{"a/../../out": b""}), "leads out of its run"),
        (archive(**{"/tmp/out": b""}), "leads out of its run"),
        (archive(**{"..\\out": b""}), "leads out of its run"),
        (archive(zeros=bytes(200 << 20)), "1 files of 200 MB; taken are .* of 100 MB"),
        (archive(**{f"{n}": b"" for n in range(60)}), "60 files of 0 MB"),
    ],
)
def test_what_is_no_folder_of_a_run_is_refused(
    returned: object, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_engine, "_MOST_BYTES", 100 << 20)
    monkeypatch.setattr(dask_engine, "_MOST_FILES", 50)
    (tmp_path / "run").mkdir()
    with pytest.raises(EngineError, match=rf"^a worker returned .*{why}"):
        unpack(returned, tmp_path / "run")
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 1 << 20
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_link_in_an_archive_comes_as_a_file(tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        made.writestr(LINK, "/etc/passwd")
    unpack(content.getvalue(), tmp_path)
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "link").read_text() == "/etc/passwd"


def test_a_matrix_of_calls_is_made_by_workers_with_its_own_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(matrix_plan, "_build", lambda *_: None)
    monkeypatch.setattr(simulated_call, "inputs", lambda source: f"machine of {source}")
    monkeypatch.setattr("sojourn.harness.matrix.engines.dask_engine.DaskEngine", lambda *given: given)
    plan = matrix_plan.Campaign(
        MATRIX, MATRIX.cells[:4], (1,), tmp_path, "tls://far:8786", kernel_source=Path(__file__)
    )
    jobs, engine = matrix_plan.prepare(plan)
    machine = f"machine of {__file__}"
    address, inputs, digest = cast(tuple[str, str, Callable[[], str]], engine)
    assert (address, inputs, digest()) == ("tls://far:8786", machine, machine)
    assert {(job.inputs, job.run, job.endpoints) for job in jobs} == {(machine, simulated_call.run_cell, "iperf3")}
    assert {job.kernel_source for job in jobs} == {Path(__file__)}
