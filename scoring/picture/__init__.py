# SPDX-License-Identifier: Apache-2.0
"""The picture on the screen: frames, freezes, resolution, delay, with and without a strip in the film."""
