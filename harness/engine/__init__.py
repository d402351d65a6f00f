# SPDX-License-Identifier: Apache-2.0
"""What makes runs: jobs, and the engines that run them: this machine's processors, a Dask cluster, one lab."""
