# SPDX-License-Identifier: Apache-2.0
"""The soak: cells of the main job in random rounds through a night, whatever happens to the machine meanwhile."""
