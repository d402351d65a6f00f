# SPDX-License-Identifier: Apache-2.0
"""The lab, the timeline of an experiment, the run store and the report. Knows no service and no qdisc by name."""
