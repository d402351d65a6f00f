# SPDX-License-Identifier: Apache-2.0
"""The machines of a physical lab: their file, consoles and power."""
