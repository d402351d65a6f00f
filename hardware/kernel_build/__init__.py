# SPDX-License-Identifier: Apache-2.0
"""The kernels that Sojourn builds: configured, patched, compiled, trained and checked."""
