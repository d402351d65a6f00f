# SPDX-License-Identifier: Apache-2.0
"""Traffic beside the victim: bulk flows and delay probes."""
