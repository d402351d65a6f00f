# SPDX-License-Identifier: Apache-2.0
"""Scores of flows: of a matrix's cell, and of a service's contenders."""
