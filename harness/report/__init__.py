# SPDX-License-Identifier: Apache-2.0
"""What people see of finished runs: pages, plots, tables, films, figures beside each other."""
