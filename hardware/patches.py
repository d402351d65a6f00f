# SPDX-License-Identifier: Apache-2.0
"""Changes to the kernel source: a quilt series of patches."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

from sojourn.hardware.build_tool import ended
from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.place import ENVIRONMENT

PATCHES = FRAGMENTS / "patches"


class PatchError(BuildError):
    """The kernel source differs from what a patch expects."""


def series(folder: Path = PATCHES) -> tuple[Path, ...]:
    """Return the patches that the file `series` in `folder` lists, in order."""
    lines = (line.partition("#")[0].strip() for line in (folder / "series").read_text().splitlines())
    return tuple(folder / name for name in lines if name)


def apply_all(source: Path, patches: tuple[Path, ...]) -> None:
    """Apply `patches` to a kernel source tree; skip a patch that the source already contains.

    A change may have moved, but the lines around it must be as in the patch. Raises PatchError at the first patch
    that fits neither way; the patches before it stay applied.
    """
    for patch in patches:
        if (said := refusal(source, patch)) and refusal(source, patch, "--reverse", "--check"):
            raise PatchError(
                f"{patch.name} does not apply to this kernel source: {said}; port that patch in {PATCHES}",
                code="unsupported",
            )


def refusal(source: Path, patch: Path, *options: str) -> str:
    """Apply `patch`; return git's first line on why it does not apply completely, and nothing is then changed.

    Returns an empty text if it applies.
    """
    done = _git_apply(source, patch, *options)
    return _first_line(done.stderr) if done.returncode else ""


def changed_files(patch: Path) -> list[str]:
    """Return the files that a patch changes. Raises PatchError if it is none, or creates, deletes or renames a file."""
    done = _git_apply(patch.parent, patch, "--numstat", "--summary")
    if done.returncode:
        raise PatchError(_first_line(done.stderr), code="invalid-value")
    lines = done.stdout.splitlines()
    if summary := [line.strip() for line in lines if line.startswith(" ")]:
        raise PatchError(f"{summary[0]}: a patch can only change files", code="invalid-value")
    return [line.split("\t", 2)[2] for line in lines]


def _git_apply(source: Path, patch: Path, *options: str) -> CompletedProcess[str]:
    # A repository around the source would make git look for the files at its top.
    environment = {**ENVIRONMENT, "GIT_DIR": str(source / ".no-git"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    command = ["git", "apply", "--whitespace=nowarn", *options, str(patch.resolve())]
    return ended(command, env=environment, cwd=source)


def _first_line(text: str) -> str:
    return text.partition("\n")[0].removeprefix("error: ")
