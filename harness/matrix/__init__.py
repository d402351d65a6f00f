# SPDX-License-Identifier: Apache-2.0
"""Transport experiments: cells, how they run in which lab, and reports over many of them."""
