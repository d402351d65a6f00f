# SPDX-License-Identifier: Apache-2.0
"""The limit of open files of this process and the programs that it starts."""

from __future__ import annotations

import resource

#: Maximum for the soft limit: some programs close every descriptor up to it.
_MOST = 1 << 16


class DescriptorError(RuntimeError):
    """The limit of open files is too low; one line that says how many are needed."""


def ensure(count: int, what: str) -> None:
    """Raise the soft limit of open files (getrlimit(2), RLIMIT_NOFILE) to the hard limit if it is lower.

    Raises DescriptorError if the hard limit is below the `count` that `what` ("a simulated machine") needs.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else hard
    if most < count:
        raise DescriptorError(
            f"open files: {what} needs {count}, but the limit is {hard}; raise the hard limit "
            f"(`ulimit -Hn {count}` as root, LimitNOFILE={count} of a unit)"
        )
    if soft != resource.RLIM_INFINITY and soft < min(most, _MOST):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, _MOST), hard))
