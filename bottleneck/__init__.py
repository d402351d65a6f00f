# SPDX-License-Identifier: Apache-2.0
"""The bottleneck: queue disciplines, shaper and path delay on any Linux router, their read-back and their sampling."""
