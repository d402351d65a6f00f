# SPDX-License-Identifier: Apache-2.0
"""The sound of a call: what was heard of the numbered tones that the other end's microphone spoke."""
