# SPDX-License-Identifier: Apache-2.0
"""One run of a cell: in simulated time or in a real-time lab, its call, its job and its scores."""
