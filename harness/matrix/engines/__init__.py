# SPDX-License-Identifier: Apache-2.0
"""Where the runs of a matrix are made: on this machine, in one lab, or on a Dask cluster."""
