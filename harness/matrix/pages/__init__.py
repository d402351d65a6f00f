# SPDX-License-Identifier: Apache-2.0
"""Presentation of a finished matrix: pages, comparisons, published tables, flent files."""
