# SPDX-License-Identifier: Apache-2.0
"""How many files a process may have open, and with it each program that it starts."""

from __future__ import annotations

import resource

#: To which the soft limit is raised at most: some programs close every descriptor up to it.
_MOST = 1 << 16


class DescriptorError(RuntimeError):
    """Too few files may be open; one line that says how many are needed."""


def ensure(count: int, what: str) -> None:
    """Raise the soft limit of open files (getrlimit(2), RLIMIT_NOFILE) to the hard one, where it is below that.

    Raises DescriptorError where the hard limit is below the `count` that `what` ("a simulated machine") needs.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else hard
    if most < count:
        raise DescriptorError(
            f"open files: {what} needs {count}, this process may have {hard}: raise the hard limit "
            f"(`ulimit -Hn {count}` as root, LimitNOFILE={count} of a unit)"
        )
    if soft != resource.RLIM_INFINITY and soft < min(most, _MOST):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, _MOST), hard))
