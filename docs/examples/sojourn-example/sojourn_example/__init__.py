# SPDX-License-Identifier: Apache-2.0
"""What this laboratory adds to Sojourn."""
