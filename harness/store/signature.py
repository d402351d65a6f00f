# SPDX-License-Identifier: Apache-2.0
"""Signatures of runs and bundles by ssh keys: `ssh-keygen -Y`, which every user of ssh and git has (OpenSSH 8.2 on)."""

from __future__ import annotations

import base64
import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.scratch import scratch_file

#: The namespace of a signature: a signature of a git commit or an e-mail is not valid for a bundle.
NAMESPACE = "sojourn"
#: Offset of the public key in a signature, preceded by its length: after magic and version
#: (openssh-portable, PROTOCOL.sshsig).
_KEY_AT = len(b"SSHSIG") + 4


class SignatureError(CodedError):
    """A key cannot sign, or a signature is not valid; the message is one line with ssh-keygen's reason."""


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of `content` by the private `key`, or by a public key whose private key is in an agent.

    ssh-keygen asks for a passphrase on the terminal. Raises SignatureError.
    """
    if not key.is_file():
        raise SignatureError(f"--sign {key}: no such file; give an ssh key, such as ~/.ssh/id_ed25519", code="missing")
    done = _keygen(["sign", "-f", str(key)], content)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise SignatureError(f"--sign {key}: {_reason(done)}", code="bad-key")
    return done.stdout


def signer(content: bytes, signature: bytes, signers: Path) -> str:
    """Return who of the allowed `signers` (ssh-keygen(1), ALLOWED SIGNERS) signed `content`, and by which key.

    Raises SignatureError if none of them did.
    """
    if not signers.is_file():
        raise SignatureError(
            f"--signers {signers}: no such file; its lines are `NAME ssh-ed25519 AAAA…`", code="missing"
        )
    file = scratch_file(".sig")
    try:
        file.write_bytes(signature)
        allowed = ["-s", str(file), "-f", str(signers)]
        done = _keygen(["find-principals", *allowed], content)
        # It reports only the first line with the key, which may have another namespace or be expired.
        named = list(dict.fromkeys([*done.stdout.decode(errors="replace").splitlines(), *_named(signature, signers)]))
        if done.returncode or not named:
            raise SignatureError(
                f"not signed, or signed by a key that is not in {signers}: {_reason(done)}", code="unknown-signer"
            )
        for who in named:
            done = _keygen(["verify", "-I", who, *allowed], content)
            if done.returncode == 0:
                break
        else:
            raise SignatureError(f"differs from what {' or '.join(named)} signed: {_reason(done)}", code="altered")
    finally:
        file.unlink()
    key = re.search(rb"with (\S+ key SHA256:\S+)", done.stdout)
    return f"{who} ({key[1].decode(errors='replace')})" if key else who


def _named(signature: bytes, signers: Path) -> list[str]:
    """Return the first name in every line of allowed signers that has the signature's key."""
    try:
        blob = base64.b64decode(b"".join(signature.split(b"\n")[1:-2]))
        (length,) = struct.unpack_from(">I", blob, _KEY_AT)
        key = base64.b64encode(blob[_KEY_AT + 4 : _KEY_AT + 4 + length])
        lines = [line.split() for line in signers.read_bytes().splitlines()]
    except (OSError, ValueError, struct.error):  # not a signature; ssh-keygen reports why
        return []
    return [words[0].split(b",")[0].strip(b'"').decode(errors="replace") for words in lines if key in words[1:]]


def signing_key(content: bytes, signature: bytes) -> str:
    """Return the key that signed `content`, as `ED25519 key SHA256:…`; only `signer` knows its owner.

    Raises SignatureError if the signature is not valid for `content`.
    """
    file = scratch_file(".sig")
    try:
        file.write_bytes(signature)
        done = _keygen(["check-novalidate", "-s", str(file)], content)
    finally:
        file.unlink()
    key = re.search(rb"with (\S+ key SHA256:\S+)", done.stdout)
    if done.returncode or not key:
        raise SignatureError(f"its signature is not valid: {_reason(done)}", code="bad-signature")
    return key[1].decode(errors="replace")


def fingerprint(key: Path) -> str:
    """Return `SHA256:…` of a key, private or public. Raises SignatureError."""
    done = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], stdin=subprocess.DEVNULL, capture_output=True)
    match = re.search(rb"SHA256:\S+", done.stdout)
    if done.returncode or not match:
        raise SignatureError(f"--sign {key}: {_reason(done)}", code="bad-key")
    return match[0].decode()


def _keygen(arguments: Sequence[str], content: bytes) -> subprocess.CompletedProcess[bytes]:
    action, *rest = arguments
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", action, "-n", NAMESPACE, *rest], input=content, capture_output=True, check=False
        )
    except OSError as missing:
        raise SignatureError(
            f"ssh-keygen: {missing.strerror}; apt install openssh-client", code="missing-program"
        ) from missing


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    said = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return said[-1] if said else f"ssh-keygen failed with exit code {done.returncode}"
