# SPDX-License-Identifier: Apache-2.0
"""The labs' private authority, which issues the origin's certificate."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY = "Sojourn lab authority"


def issue(folder: Path, host: str, year: int) -> None:
    """Write chain.pem, key.pem, ca.pem and spki.txt of `host`, valid for 20 years from the beginning of `year` (UTC).

    The keys follow from their names alone, so the files are the same on every machine.
    """
    since = dt.datetime(year, 1, 1, tzinfo=dt.UTC)

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def key_of(whose: str) -> ec.EllipticCurvePrivateKey:
        return ec.derive_private_key(_number(f"key of {whose}"), ec.SECP256R1())

    def begin(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(name(_AUTHORITY), name(subject), key.public_key())
        builder = builder.serial_number(_number(f"serial of {subject}") >> 100)
        return builder.not_valid_before(since).not_valid_after(since + dt.timedelta(days=7300))

    authority_key, key = key_of(_AUTHORITY), key_of(host)
    authority = begin(_AUTHORITY, authority_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    leaf = (
        begin(host, key)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    pem = serialization.Encoding.PEM

    def signed(builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(authority_key, hashes.SHA256(), ecdsa_deterministic=True).public_bytes(pem)

    (folder / "ca.pem").write_bytes(signed(authority))
    (folder / "chain.pem").write_bytes(signed(leaf) + signed(authority))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "spki.txt").write_text(base64.b64encode(hashlib.sha256(public).digest()).decode())


def _number(words: str) -> int:
    """A number below the order of P-256, derived from `words` alone."""
    return int.from_bytes(hashlib.sha256(f"Sojourn lab, {words}".encode()).digest()) >> 1
