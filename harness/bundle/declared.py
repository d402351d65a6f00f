# SPDX-License-Identifier: Apache-2.0
"""What of a run's JSON goes into an anonymised bundle: the fields that its record declares, and no others."""

from __future__ import annotations

import re
from types import UnionType
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from sojourn.harness.bundle.pseudonyms import Pseudonyms
from sojourn.scoring.schema import records

#: Of these every number is kept by tc's own name for it.
_COUNTERS = (records.QdiscRecord, records.QdiscOptions, records.ClassStatistics)
_COUNTER = re.compile(r"[a-z][a-z0-9_-]{0,40}")


def declared(value: Any, shape: Any, names: Pseudonyms) -> Any:
    """Return the part of a JSON value that a type declares, its texts replaced by `names`; None where it does not fit.

    `shape` is a TypedDict of `sojourn.scoring.schema.records`, a list or tuple or dict of such, or a scalar's type.
    """
    origin, args = get_origin(shape), get_args(shape)
    if origin in (Annotated, NotRequired, Required):
        return value if records.PUBLIC in args and isinstance(value, str) else declared(value, args[0], names)
    if origin in (Union, UnionType):
        shape = next((arm for arm in args if _fits(value, arm)), None)
        return None if shape is None else declared(value, shape, names)
    if not _fits(value, shape):
        return None
    if is_typeddict(shape):
        return _object(value, shape, names)
    if origin is list:
        return [declared(item, args[0], names) for item in value]
    if origin is tuple:
        return [declared(item, arm, names) for item, arm in zip(value, args, strict=False)]
    if origin is dict:
        return {names.text(key): declared(item, args[1], names) for key, item in value.items()}
    return names.text(value) if isinstance(value, str) else value


def _object(value: dict[str, Any], shape: Any, names: Pseudonyms) -> dict[str, Any]:
    hints = dict(get_type_hints(shape, include_extras=True))
    if shape is records.PlayerLine and (detail := records.DETAILS.get(value.get("event", ""))):
        hints["detail"] = detail
    counters = shape in _COUNTERS
    return {
        key: declared(item, hints.get(key, float), names)
        for key, item in value.items()
        if key in hints or (counters and isinstance(item, int | float) and _COUNTER.fullmatch(key))
    }


def _fits(value: Any, shape: Any) -> bool:
    """Tell whether a value has the structure of a type: an object, a list, or a scalar."""
    while get_origin(shape) in (Annotated, NotRequired, Required):
        shape = get_args(shape)[0]
    if is_typeddict(shape) or get_origin(shape) is dict:
        return isinstance(value, dict)
    if get_origin(shape) in (list, tuple):
        return isinstance(value, list | tuple)
    if get_origin(shape) in (Union, UnionType):
        return any(_fits(value, arm) for arm in get_args(shape))
    return value is None or isinstance(value, str | int | float)
