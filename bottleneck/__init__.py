# SPDX-License-Identifier: Apache-2.0
"""The bottleneck: queueing disciplines, shaper, path delay, their read-back and their sampling on any
Linux router.
"""
