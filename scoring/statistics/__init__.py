# SPDX-License-Identifier: Apache-2.0
"""Harm, intervals and comparisons of scores."""
