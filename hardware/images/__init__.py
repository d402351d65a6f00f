# SPDX-License-Identifier: Apache-2.0
"""The file systems that machines start from: guests, desktops, a board's disk."""
