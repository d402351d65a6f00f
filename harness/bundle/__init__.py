# SPDX-License-Identifier: Apache-2.0
"""Evidence to hand on: a run as one archive, signed, anonymised, described for machines."""
