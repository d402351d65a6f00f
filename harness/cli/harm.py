# SPDX-License-Identifier: Apache-2.0
"""The main job as a command: pytest's options, told and completed by `sojourn harm` from the same table."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from sojourn.apps.options import Option
from sojourn.hardware.machine.files import CHECKOUT, EXPERIMENTS, SETTINGS
from sojourn.harness.options.model import FORMER, GROUPS, OPTIONS

app = typer.Typer()
_PYTEST = "Arguments after -- are passed to pytest: `sojourn harm --repeat=5 -- -x`."


def _choices(option: Option) -> Callable[[str], list[str]]:
    def begin(begun: str) -> list[str]:
        return [text for text in option.choices + option.examples if text.startswith(begun)]

    return begin


def _annotation(option: Option) -> Any:
    offered = typer.Option(
        f"--{option.name}",
        help=option.text,
        rich_help_panel=GROUPS[option.group][0].upper() + GROUPS[option.group][1:],
        metavar=None if option.flag else option.name.removesuffix("-up").rpartition("-")[2].upper(),
        autocompletion=None if option.flag else _choices(option),
        show_default=False,
    )
    return Annotated[bool | None if option.flag else str | None, offered]


def harm(context: typer.Context, **given: str | bool | None) -> None:
    """Measure the harm to a video or a call: the main job.

    Plays it in a real browser behind a bottleneck, alone and with each contender, and reports what the viewer lost.
    Custom defaults: sojourn.toml in this folder, or SOJOURN_<OPTION> in the environment.
    """
    words = [
        f"--{name.replace('_', '-')}" if value is True else f"--{name.replace('_', '-')}={value}"
        for name, value in given.items()
        if value not in (None, False)
    ]
    # Not by the settings, nor by the modules (-P), of whatever folder this is called in.
    settings = ["-c", str(SETTINGS), f"--rootdir={CHECKOUT}", "-p", "no:cacheprovider"]
    test = str(EXPERIMENTS / "test_video_harm.py")
    os.execv(sys.executable, [sys.executable, "-P", "-m", "pytest", *settings, test, *words, *context.args])


# typer reads a command's options off its signature; those of earlier versions are for pytest to refuse.
_annotations = {
    "context": typer.Context,
    **{it.name.replace("-", "_"): _annotation(it) for it in OPTIONS},
    **{name.replace("-", "_"): Annotated[str | None, typer.Option(f"--{name}", hidden=True)] for name in FORMER},
}
_parameters = [
    inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=annotation,
        default=inspect.Parameter.empty if name == "context" else None,
    )
    for name, annotation in _annotations.items()
]
harm.__signature__ = inspect.Signature(_parameters)  # type: ignore[attr-defined]
harm.__annotations__ = _annotations
app.command(epilog=_PYTEST, context_settings={"allow_extra_args": True})(harm)
