# SPDX-License-Identifier: Apache-2.0
"""Presentation of finished runs: pages, plots, tables, films, comparisons."""
