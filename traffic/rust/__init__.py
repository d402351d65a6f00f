# SPDX-License-Identifier: Apache-2.0
"""Sojourn's Rust programs, based on libraries if possible: contenders, and an origin. Compiled by cargo, cached.

`quic`: a bulk flow on quinn (https://github.com/quinn-rs/quinn); `quic-noq`: the same on noq
(https://github.com/n0-computer/noq), with Sojourn's Prague and LEDBAT++; `quic-quiche`: the same on quiche
(https://github.com/cloudflare/quiche); `webrtc`: a video on str0m (https://github.com/algesten/str0m); `scream`: a
video by RFC 8298; `scream2`: an L4S video by SCReAM v2; `origin`: an HTTP/3 server of the stand-ins' files on noq and
h3 (https://github.com/hyperium/h3).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from sojourn.hardware.build_tool import ended
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError

HERE = Path(__file__).parent
LOCK = "Cargo.lock.in"
"""Cargo.lock without the registry's address: the registry of the machine's cargo is inserted."""
PACKAGES: Mapping[str, Sequence[str]] = {
    "": ("quic", "scream", "scream2", "webrtc"), "noq": ("quic-noq",), "origin": ("origin",),
    "quiche": ("quic-quiche",),
}  # fmt: skip
"""The programs by the folder of their Cargo.toml and LOCK.

A package is compiled when one of its programs is needed, and its libraries do not change those of another package.
"""
#: Cargo's words for a package, if not those for all others: static, because a guest has no libstdc++ for BoringSSL.
_BUILD: Mapping[str, Sequence[str]] = {
    "quiche": ("rustc", "--release", "--locked", "--", "-C", "target-feature=+crt-static"),
}
#: A module in a file of its own: its path, if it is not its name.
_MODULE = re.compile(r'^(?:#\[path = "(.+)"\]\n)?mod (\w+);', re.MULTILINE)
_LEAST = (1, 88)
_INSTALL = f"Rust {'.'.join(map(str, _LEAST))} or newer, from https://rustup.rs or the distribution's packages"


def missing_tools(name: str = "") -> str:
    """Return what is missing on this machine to compile a program, empty if nothing."""
    if not shutil.which("cargo"):
        return f"cargo ({_INSTALL})"
    # quiche's TLS library, BoringSSL.
    further = ("cmake", "clang") if name in PACKAGES["quiche"] else ()
    missing = [tool for tool in further if not shutil.which(tool)]
    return f"{' and '.join(missing)} (apt-get install {' '.join(missing)})" if missing else ""


def package_of(name: str) -> str:
    """Return the folder of PACKAGES that has the program of that name."""
    return next(package for package, programs in PACKAGES.items() if name in programs)


def sources(package: str, here: Path = HERE) -> list[Path]:
    """Return the files of which the programs of a package are compiled; `here` is this folder of a checkout.

    Of the code, these are the files that Cargo.toml names, and all modules that they declare.
    """
    manifest = here / package / "Cargo.toml"
    found = [_next_to(manifest, program["path"]) for program in tomllib.loads(manifest.read_text())["bin"]]
    code = set[Path]()
    while found:
        code.add(file := found.pop())
        modules = (_next_to(file, path or f"{name}.rs") for path, name in _MODULE.findall(file.read_text()))
        found += {*modules} - code
    return [manifest, here / package / LOCK, *sorted(code)]


def _next_to(file: Path, path: str) -> Path:
    return Path(os.path.normpath(file.parent / path))


def ensure(name: str) -> Path:
    """Return the program of that name, compiled now if it is not in the cache. Raises BuildError if that fails."""
    if missing := missing_tools(name) or _too_old():
        raise BuildError(f"not installed: {missing}", code="missing-program")
    package = package_of(name)
    compiler = subprocess.run(["rustc", "-vV"], capture_output=True, check=False).stdout
    contents = [(str(path.relative_to(HERE)), path.read_bytes()) for path in sources(package)]

    def build(scratch: Path) -> None:
        folder = scratch / package
        folder.mkdir(exist_ok=True)
        for source, content in contents:
            (scratch / source).write_bytes(content)
        _cargo(folder, "generate-lockfile")
        lock = folder / "Cargo.lock"
        lock.write_text(located((folder / LOCK).read_text(), lock.read_text()))
        _cargo(folder, *_BUILD.get(package, ("build", "--release", "--locked")))
        (scratch / "programs").mkdir()
        for program in PACKAGES[package]:
            shutil.move(folder / "target/release" / program, scratch / "programs" / program)
        cache.remove_tree(folder / "target")

    digest = cache.digest([*contents, ("compiler", compiler)])
    return cache.build_once(cache.root() / "rust" / digest, build) / "programs" / name


def located(lock: str, fresh: str) -> str:
    """Return `lock`, the text of LOCK, with the registry in `fresh`, a lock file of this machine's cargo.

    Raises BuildError if `fresh` names none.
    """
    source = re.search(r"^source = .*$", fresh, re.MULTILINE)
    if source is None:
        raise BuildError("cargo's lock file names no registry", code="missing")
    return lock.replace('source = "registry"', source[0])


def _too_old() -> str:
    said = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    version = re.match(r"cargo (\d+)\.(\d+)", said)
    if version and (int(version[1]), int(version[2])) >= _LEAST:
        return ""
    return f"a newer cargo than {said or 'this one, which prints no version'} ({_INSTALL})"


def _cargo(folder: Path, *command: str) -> None:
    subcommand, *words = command
    done = ended(["nice", "cargo", subcommand, "--quiet", *words], cwd=folder)
    if done.returncode:
        raise BuildError(f"traffic/rust: cargo {subcommand} failed: {done.stderr.strip()[-300:]}")
