# SPDX-License-Identifier: Apache-2.0
"""Traffic next to the victim: bulk flows and delay probes."""
