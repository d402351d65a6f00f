# SPDX-License-Identifier: Apache-2.0
"""Pure scoring: recordings, captures and probe logs of a run in, numbers out."""
