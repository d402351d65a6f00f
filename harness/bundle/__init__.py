# SPDX-License-Identifier: Apache-2.0
"""Evidence to share: a run as one archive, signed, anonymised, with machine-readable metadata."""
