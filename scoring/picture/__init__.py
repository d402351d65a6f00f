# SPDX-License-Identifier: Apache-2.0
"""What the screen showed: frames, freezes, resolution, delay, with and without marks in the film."""
