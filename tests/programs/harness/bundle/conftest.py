# SPDX-License-Identifier: Apache-2.0
"""A run to pack, and keys to sign with."""

from tests.unit.harness.bundle.test_archive import keys, run

__all__ = ["keys", "run"]
