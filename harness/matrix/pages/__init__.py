# SPDX-License-Identifier: Apache-2.0
"""What is shown of a finished matrix: pages, comparisons, published tables, flent's files."""
