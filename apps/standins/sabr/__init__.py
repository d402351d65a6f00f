# SPDX-License-Identifier: Apache-2.0
"""A SABR stand-in: a film whose server chooses the renditions (server-side adaptive bitrate)."""
