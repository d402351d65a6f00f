# SPDX-License-Identifier: Apache-2.0
"""The options of a run: their fields, their rules, and where their values come from."""
