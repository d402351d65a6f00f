# SPDX-License-Identifier: Apache-2.0
"""The userland of a simulated machine with a screen: browser, player's origin, recorder, and the harness's Python.

Debian packages of one suite, the locked Python distributions for that suite's Python, and this project's sources:
nothing from the host is inside, so that the same run gives the same bytes on another machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sojourn.hardware.build_tool import call, ended
from sojourn.hardware.images import tc_objects
from sojourn.hardware.images.guest import INIT, PACKAGES, SUITE, extract, in_root, prepare
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError, Progress
from sojourn.hardware.machine.files import CHECKOUT, LOCK
from sojourn.hardware.machine.plugins import packages

#: Packages in addition to the nodes'; chromium-driver is for Selenium.
SHOWN = (
    "bash", "caddy", "chromium", "chromium-driver", "ffmpeg", "fonts-dejavu-core", "python3", "xvfb",
)  # fmt: skip
#: Packages of a recorder that most runs do not use.
EXTRAS: dict[str, tuple[str, ...]] = {"obs": ("obs-studio",)}
#: What the harness imports while it records; the lock pins versions and dependencies.
DISTRIBUTIONS = (
    "aiohttp", "cryptography", "numpy", "obsws-python", "opencv-python-headless", "playwright", "polars", "psutil",
    "pydantic", "rich", "selenium", "typing-extensions", "zstandard",
)  # fmt: skip
SOURCES = ("apps", "bottleneck", "captures", "hardware", "harness", "scoring", "traffic")
#: Change this whenever the assembly of a userland changes.
_MADE = "3"
_UNREAD = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info")
_TAGS = ("manylinux_2_17", "manylinux2014", "manylinux_2_27", "manylinux_2_28", "manylinux_2_31", "manylinux_2_34")


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


def ensure_desktop(extras: Iterable[str] = (), progress: Progress | None = None) -> Desktop:
    """Return the userland, assembled now if it is not in the cache. Works as root and as a plain user.

    Args:
        extras: names of EXTRAS.
        progress: receives the current step and the fraction done.

    Raises:
        BuildError: a tool is missing, or packages or distributions are not available.
    """
    report = progress or (lambda _what, _fraction: None)
    packages = (*PACKAGES, *SHOWN, *(name for extra in sorted(extras) for name in EXTRAS[extra]))
    lock = locked_lines(DISTRIBUTIONS, LOCK.read_text())
    inputs = {"made": _MADE, "init": INIT.read_text(), "packages": " ".join((SUITE, *packages)), "lock": lock}
    parts = [*((name, text.encode()) for name, text in inputs.items()), *tc_objects.inputs()]
    entry = cache.build_once(
        cache.root() / "desktop" / cache.digest(parts), lambda scratch: _build(scratch, packages, lock, report)
    )
    made = json.loads((entry / "made.json").read_text())
    sources, name = _ensure_sources(entry)
    return Desktop(entry / "root", sources, made["versions"], made["content"], name)


def _build(scratch: Path, packages: tuple[str, ...], lock: str, report: Progress) -> None:
    root = scratch / "root"
    versions = extract(root, packages, report)
    report("fetching its Python distributions", 0.6)
    for name in _UNREAD:
        cache.remove_tree(root / name)
    prepare(root)
    versions |= _install(root, lock, scratch / "lock.txt")
    report("compiling its Python modules", 0.8)
    _compile(root, root, root / "usr/lib/python3", root / _python(root).replace("bin", "lib"))
    report("hashing the guest", 0.95)
    cache.normalise_mtimes(root)
    made = {"versions": versions, "content": tree_digest(root)}
    (scratch / "made.json").write_text(json.dumps(made, indent=1) + "\n")
    report("guest ready", 1.0)


def locked_lines(names: Iterable[str], lock: str) -> str:
    """Return the lines of these distributions and of all that they need, from a lock with hashes and requirers.

    The lock is what `uv pip compile` writes: below every pin, a comment names the distributions that need it.
    Raises BuildError if one is not in the lock.
    """
    pins, needs = _pins(lock)
    wanted, seen = [_normal(name) for name in names], set[str]()
    while wanted:
        if (name := wanted.pop()) not in seen:
            seen.add(name)
            wanted += needs.get(name, ())
    if missing := sorted(seen - pins.keys()):
        raise BuildError(f"not in requirements.txt: {', '.join(missing)}; run make lock", code="missing")
    return "".join(pins[name] for name in sorted(seen))


def _pins(lock: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the lines of every distribution in a lock, without comments, and the distributions that each one needs."""
    pins, needs = dict[str, str](), dict[str, list[str]]()
    for block in re.split(r"(?m)^(?=[^\s#])", lock):
        if not (match := re.match(r"([\w.-]+)(?:\[[^\]]*\])?==", block)):
            continue
        name = _normal(match[1])
        pins[name] = pins.get(name, "") + "".join(re.findall(r"(?m)^(?!\s*#).*\n", block))
        for requirer in re.findall(r"(?m)^\s+#(?:\s+via)?\s+([\w.-]+)", block):
            if requirer != "via":
                needs.setdefault(_normal(requirer), []).append(name)
    return pins, needs


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _python(root: Path) -> str:
    """Return the path of the root's Python within the root, such as usr/bin/python3.14."""
    return str(next(p for p in root.glob("usr/bin/python3.*") if p.name.count(".") == 1).relative_to(root))


def _install(root: Path, lock: str, file: Path) -> dict[str, str]:
    """Unpack the locked wheels for the root's Python; return their versions."""
    python = _python(root)
    version = python.rpartition("python")[2]
    file.write_text(lock)
    target = root / "usr/lib/python3/dist-packages"
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
