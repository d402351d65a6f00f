# SPDX-License-Identifier: Apache-2.0
"""The browser that a service plays in, and what drives it."""
