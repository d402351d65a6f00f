# SPDX-License-Identifier: Apache-2.0
"""One run of a cell: in simulated time, in a lab of real time, its call, its job and its scores."""
