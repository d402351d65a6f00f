# SPDX-License-Identifier: Apache-2.0
"""The userland of a simulated machine with a screen: browser, player's origin, recorder, and the harness's Python.

Debian packages of one suite, the locked Python distributions for that suite's Python, and this project's sources:
nothing from the host is inside, so that the same run gives the same bytes on another machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.hardware.build_tool import call, ended
from sojourn.hardware.images import tc_objects
from sojourn.hardware.images.archive import SUITE
from sojourn.hardware.images.guest import INIT, MADE, PACKAGES, extract, in_root, prepare
from sojourn.hardware.images.lock import locked_lines
from sojourn.hardware.images.sharing import share, share_with_others
from sojourn.hardware.images.slim import remove, slim
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError, ProgressCallback, unreported
from sojourn.hardware.machine.files import CHECKOUT, LOCK
from sojourn.hardware.machine.plugins import packages

#: Packages in addition to the nodes'.
SHOWN = ("bash", "caddy", "chromium", "ffmpeg", "fonts-dejavu-core", "python3", "xvfb")
#: Packages of a recorder and of a driver that most runs do not use.
EXTRAS: dict[str, tuple[str, ...]] = {"obs": ("obs-studio",), "selenium": ("chromium-driver",)}
#: Those of them that are Python distributions too.
_EXTRA_DISTRIBUTIONS = ("selenium",)
#: What the harness imports while it records; the lock pins versions and dependencies.
DISTRIBUTIONS = (
    "aiohttp", "cryptography", "h2", "numpy", "obsws-python", "opencv-python-headless", "playwright", "polars",
    "psutil", "pydantic", "rich", "typing-extensions", "zstandard",
)  # fmt: skip
SOURCES = ("apps", "bottleneck", "captures", "hardware", "harness", "scoring", "traffic")
#: Change this whenever the assembly of a userland changes.
_MADE = "7"
_PACKAGES = "usr/lib/python3/dist-packages"
#: What no program of a run opens.
_UNREAD = (
    *("usr/lib/chromium/libVkLayer_*", "usr/lib/chromium/libVkICD_mock_icd.*"),  # to debug Vulkan programs
    "usr/share/icons/Adwaita/cursors",  # no recorder draws the pointer
    *("usr/lib/python3.*/test", "usr/lib/python3.*/pydoc_data"),
    f"{_PACKAGES}/selenium/webdriver/common/linux-*",  # finds drivers
    f"{_PACKAGES}/playwright/driver/package/types",
    *(f"{_PACKAGES}/{name}" for name in ("bin", "*.dist-info/RECORD")),  # scripts name the host's Python
    "dev/*",  # only root can make devices; the machine has its own
)
#: A fifth of all modules, which no run imports: highlighting of source code.
_UNCOMPILED = r"/pygments/(lexers|styles)/"
#: Mesa's software rendering: the page is drawn by Chromium's own, only OBS Studio uses this.
_RENDERING = ("usr/lib/*/libLLVM.so*", "usr/lib/*/libgallium-*", "usr/lib/*/libz3.so*")
#: The newest first, as pip on the host prefers them: both can then share files.
_TAGS = ("manylinux_2_34", "manylinux_2_31", "manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")


@dataclass(frozen=True)
class Desktop:
    """A built userland and the project's sources."""

    root: Path
    """Directory that the machine mounts as its root."""
    sources: Path
    """Directory with the package `sojourn` and those of its extensions, compiled for the root's Python."""
    versions: dict[str, str]
    """Version of every package and distribution inside, by name."""
    digest: str
    """SHA-256 of the root's files, first 24 digits."""
    sources_digest: str
    """The same for the project's sources."""


def ensure_desktop(extras: Iterable[str] = (), progress: ProgressCallback | None = None) -> Desktop:
    """Return the userland, assembled now if it is not in the cache. Works as root and as a plain user.

    Args:
        extras: names of EXTRAS.
        progress: receives the current step and the fraction done.

    Raises:
        BuildError: a tool is missing, or packages or distributions are not available.
    """
    report = progress or unreported
    extras = sorted(extras)
    packages = (*PACKAGES, *SHOWN, *(name for extra in extras for name in EXTRAS[extra]))
    try:
        distributions = (*DISTRIBUTIONS, *(extra for extra in extras if extra in _EXTRA_DISTRIBUTIONS))
        lock = locked_lines(distributions, LOCK.read_text())
    except LookupError as missing:
        raise BuildError(f"not in requirements.txt: {missing}; run make lock", code="missing") from missing
    inputs = {
        "made": f"{_MADE} {MADE}",
        "init": INIT.read_text(),
        "packages": " ".join((SUITE, *packages)),
        "lock": lock,
    }
    parts = [*((name, text.encode()) for name, text in inputs.items()), *tc_objects.inputs()]
    entry = cache.build_once(
        cache.root() / "desktop" / cache.digest(parts), lambda scratch: _build(scratch, packages, lock, extras, report)
    )
    made = json.loads((entry / "made.json").read_text())
    sources, name = _ensure_sources(entry)
    return Desktop(entry / "root", sources, made["versions"], made["content"], name)


def _build(scratch: Path, packages: Sequence[str], lock: str, extras: Sequence[str], report: ProgressCallback) -> None:
    root = scratch / "root"
    versions = extract(root, packages, report)
    report(0.6, "fetching its Python distributions")
    prepare(root)
    versions |= _install(root, lock, scratch / "lock.txt")
    slim(root / _PACKAGES)
    remove(root, _UNREAD if "obs" in extras else (*_UNREAD, *_RENDERING))
    share(root / _PACKAGES, Path(sysconfig.get_path("purelib")))
    share_with_others(root)
    report(0.8, "compiling its Python modules")
    _compile(root, root, root / "usr/lib/python3", root / _python(root).replace("bin", "lib"))
    report(0.95, "hashing the guest")
    cache.normalise_mtimes(root)
    made = {"versions": versions, "content": tree_digest(root)}
    (scratch / "made.json").write_text(json.dumps(made, indent=1) + "\n")
    report(1.0, "guest ready")


def _python(root: Path) -> str:
    """Return the path of the root's Python within the root, such as usr/bin/python3.14."""
    return str(next(p for p in root.glob("usr/bin/python3.*") if p.name.count(".") == 1).relative_to(root))


def _install(root: Path, lock: str, file: Path) -> dict[str, str]:
    """Unpack the locked wheels for the root's Python; return their versions."""
    python = _python(root)
    version = python.rpartition("python")[2]
    file.write_text(lock)
    target = root / _PACKAGES
    platforms = [word for tag in _TAGS for word in ("--platform", f"{tag}_{os.uname().machine}")]
    call([
        sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-compile",
        "--require-hashes", "--only-binary", ":all:", "--python-version", version, "--implementation", "cp", *platforms,
        "--target", str(target), "--upgrade", "-r", str(file),
    ])  # fmt: skip
    file.unlink()
    installed = (path.name.removesuffix(".dist-info").rpartition("-") for path in target.glob("*.dist-info"))
    return {f"python {name}": text for name, _, text in sorted(installed)}


def _compile(root: Path, base: Path, *folders: Path) -> None:
    """Compile modules with the root's Python, without timestamp checks; their paths are relative to `base`."""
    command = [*in_root(root, _python(root)), "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    env = {"PYTHONHOME": str(root / "usr"), "PATH": os.defpath, "LC_ALL": "C.UTF-8"}
    command += ["-x", _UNCOMPILED]
    # Nor its own imports: they would be compiled by time and path, and written to a finished root.
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    done = ended([*command, "-s", str(base), "-p", "/", *map(str, folders)], env=env)
    # Some distributions contain files for other Python versions; what a run needs shows on import.
    if done.returncode not in (0, 1) or not any(folders[0].rglob("*.pyc")):
        raise BuildError(f"the guest's Python does not run here: {(done.stderr or done.stdout).strip()[-300:]}")


def _ensure_sources(desktop: Path) -> tuple[Path, str]:
    """Return the project's packages and its plug-ins in their current state, compiled, and their digest."""
    # Read once: later edits must not be stored under the digest of the earlier content.
    files = sorted(
        (f"sojourn/{path.relative_to(CHECKOUT)}", path.read_bytes())
        for name in SOURCES
        for path in (CHECKOUT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    files += sorted(file for package in packages() for file in package.files())
    digest = cache.digest(files)

    def build(scratch: Path) -> None:
        for name, content in files:
            copy = scratch / "sojourn" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        _compile(desktop / "root", scratch, scratch / "sojourn")
        cache.normalise_mtimes(scratch)

    entry = cache.build_once(cache.root() / "sources" / f"{desktop.name[:12]}-{digest}", build)
    return entry / "sojourn", digest


def tree_digest(tree: Path) -> str:
    """Return the SHA-256, first 24 digits, of names, kinds and contents below `tree`."""
    total = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        if path.is_symlink():
            content = f"-> {os.readlink(path)}".encode()
        elif path.is_file():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").digest()
        else:
            content = b"/"
        total.update(f"{path.relative_to(tree)}\0".encode() + content + b"\0")
    return total.hexdigest()[:24]
