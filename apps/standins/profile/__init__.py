# SPDX-License-Identifier: Apache-2.0
"""Profiles of video services: what a recording of a service shows that does not depend on the path."""
