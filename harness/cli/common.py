# SPDX-License-Identifier: Apache-2.0
"""Shared parts of commands: a run as an argument, and errors in one line."""

from __future__ import annotations

import functools
import inspect
import json
import os
import signal
from collections.abc import Callable
from enum import IntEnum
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec, TypeVar

import typer
from pydantic import ValidationError
from pydantic_core import to_json

from sojourn.apps.options import Option
from sojourn.hardware.machine.errors import Code
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import ELSEWHERE, GROUPS, OPTIONS
from sojourn.harness.terminal import complain

if TYPE_CHECKING:
    from sojourn.harness.store.loaded import LoadedRun
    from sojourn.harness.store.manifest import Manifest
    from sojourn.scoring.statistics.relevance import Relevance

P = ParamSpec("P")
R = TypeVar("R")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Signers = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Require a signature by one of these signers (ssh-keygen's allowed signers)."),
]
Rescore = Annotated[
    bool, typer.Option("--rescore/--no-rescore", help="Recompute the scores and compare them with the stored ones.")
]
Least = Annotated[
    str,
    typer.Option(
        metavar="SIZES",
        help="Least differences that matter: goodput=5%,delay=5ms,picture=0.5,… (docs/measurement.md); 0: all.",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory under results/.")]


def declared(option: Option, help: str = "", panel: str | None = None) -> Any:
    """Return typer's option for one of `harness/options/model.py`; the command gets its text. `help` replaces its own.

    Its default is the command's to give, and to show where `help` does not.
    """

    def begin(begun: str) -> list[str]:
        return [text for text in option.choices + option.examples if text.startswith(begun)]

    return typer.Option(
        f"--{option.name}",
        help=help or option.text,
        rich_help_panel=panel,
        metavar=None if option.flag else option.name.removesuffix("-up").rpartition("-")[2].upper(),
        autocompletion=None if option.flag else begin,
        show_default=bool(help),
    )


def with_options(command: Callable[..., None], **first: Any) -> Callable[..., None]:
    """Return a command that takes `first`, by name and annotation, then every option of a run, None where not given.

    typer reads a command's options off its signature; names that other tools use are refused with Sojourn's.
    """

    def annotation(option: Option) -> Any:
        panel = GROUPS[option.group]
        text = declared(option, panel=panel[0].upper() + panel[1:])
        return Annotated[bool | None if option.flag else str | None, text]

    annotations = {
        **first,
        **{it.name.replace("-", "_"): annotation(it) for it in OPTIONS},
        **{name.replace("-", "_"): Annotated[str | None, typer.Option(f"--{name}", hidden=True)] for name in ELSEWHERE},
    }
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=inspect.Parameter.empty if annotation is typer.Context else None,
            )
            for name, annotation in annotations.items()
        ]
    )
    command.__annotations__ = annotations
    return command


def sizes(least: str) -> Relevance:
    """Return the sizes of `--least`; empty: the defaults. Raises OptionsError."""
    from sojourn.scoring.statistics.relevance import DEFAULT, RelevanceError, parse

    try:
        found = parse(least) if least else DEFAULT
        named = [part.partition("=")[0].strip() for part in least.split(",")]
        if twice := next((name for name in named if named.count(name) > 1), None):
            raise RelevanceError(f"{twice} is given twice; give one size")
        if not all(isfinite(size) for _, size in found):
            raise RelevanceError(f"{least!r} has an infinite size; give a number")
    except RelevanceError as wrong:
        raise OptionsError(f"--least: {wrong}", code="invalid-value", option="least") from wrong
    except ValidationError as wrong:
        raise OptionsError(
            f"--least: {least!r} has a size that is not a number; give one", code="invalid-value", option="least"
        ) from wrong
    return found


def check_output(option: str, path: Path | None, *, folder: bool = False) -> None:
    """Raise OptionsError, before any work, unless a command can write a file at `path`, or a folder, which it creates.

    A path inside a run is refused.
    """
    from sojourn.harness.store.manifest import StoreError, require_outside_runs

    if path is None:
        return

    def refused(text: str, code: Code) -> OptionsError:
        return OptionsError(f"--{option}: {text}", code=code, option=option)

    try:
        require_outside_runs(path, option)
    except StoreError as inside:
        raise OptionsError(str(inside), code=inside.code, option=option) from inside
    place = path if folder else path.parent
    there = next(it for it in (place, *place.absolute().parents) if os.path.lexists(it))
    if not there.is_dir():
        raise refused(f"{there}: not a folder; give another path", "not-a-folder")
    if not folder and there != place:
        raise refused(f"{place}: no such folder; create it", "missing")
    if not folder and os.path.lexists(path) and not path.is_file():  # a device would be replaced too
        raise refused(f"{path}: {'a folder' if path.is_dir() else 'not a file'}; give a file", "not-a-file")
    if not any(os.access(it, os.W_OK) for it in (path, there)):
        raise refused(f"{path}: cannot be written; give a path that you can write", "not-writable")


class ExitCode(IntEnum):
    """Exit codes; a run that a signal ended gives 128 and its number. 2 is typer's, for what is no option."""

    VALID = 0
    TOO_FEW_VALID = 1
    CANNOT_WORK = 4


def leave(code: int) -> NoReturn:
    """End the command with an exit code."""
    if code > 128:  # Python restores the default of a signal that has a handler before it ends
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise typer.Exit(code)


def failed(error: Exception, code: ExitCode) -> ExitCode:
    """Print an error, a line on standard error for each of its lines, and return the exit code."""
    for line in str(error).splitlines():
        complain(line)
    return code


def stopped(stop: KeyboardInterrupt, *kept: str) -> int:
    """Print what stopped the command and what it has left, and return its exit code."""
    from sojourn.harness.store.runs import stopped_by

    for line in (stopped_by(stop), *kept):
        complain(line)
    return 128 + (signal.Signals[str(stop)] if str(stop) else signal.SIGINT)


def print_json(value: Any) -> None:
    """Print a value as JSON: models and dataclasses by field, paths as text, infinite values as `Infinity`.

    The output is ASCII only, because values may come from third parties.
    """
    print(json.dumps(json.loads(to_json(value, inf_nan_mode="strings")), indent=1))


def report_page(run: Path, manifest: Manifest) -> str:
    """Return `report.html` of a run of any kind. Raises LoadError, ReportError."""
    from sojourn.harness.matrix.pages import cell_page
    from sojourn.harness.report import run_page
    from sojourn.harness.store.loaded import load_run_scores

    scores = load_run_scores(run, manifest)
    if isinstance(scores, dict):
        return cell_page.run_page(run, scores, manifest)
    return run_page.page(run, scores, manifest)


def renew_report(run: Path) -> Path:
    """Write `report.html` of a run of any kind, let its manifest hold it, and return its path.

    Raises LoadError, StoreError, ReportError, OSError.
    """
    from sojourn.harness.store.manifest import REPORT, read_manifest, store_derived

    return store_derived(run, REPORT, report_page(run, read_manifest(run)).encode())


def regenerate_report(run: LoadedRun) -> Path:
    """Write `report.html` of a run whose files are as recorded, and return its path. Raises as `renew_report`."""
    from sojourn.harness.store.loaded import VictimRun
    from sojourn.harness.store.manifest import REPORT
    from sojourn.scoring.picture.judged import QUALITY
    from sojourn.scoring.sound.judged_speech import SPEECH

    if isinstance(run, VictimRun):
        run.require_raw_files(QUALITY, SPEECH)
    else:
        run.whole(REPORT)
    return renew_report(run.path)


def write_index_of_runs(results: Path) -> None:
    """Write the index of a results folder, to which the reports of its runs link; print why it cannot be written."""
    from sojourn.harness.report.index import write_index

    try:
        write_index(results)
    except (RuntimeError, OSError) as error:
        complain(f"no index: {error}; `sojourn report {results}` writes it")


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Convert the errors that are meant for users to one line on standard error and exit code 1.

    The end of a pipe's reader is none: typer ends the command quietly.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (OptionsError, RuntimeError, OSError) as error:
            if isinstance(error, typer.Exit | typer.Abort | BrokenPipeError):
                raise
            complain(str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt as stop:
            leave(stopped(stop))

    return wrapped
