# SPDX-License-Identifier: Apache-2.0
"""The options of a finished run, from its options.json, which may come from a third party."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from sojourn.apps import SERVICES
from sojourn.harness.options.errors import OptionsError, VersionError
from sojourn.harness.options.model import OPTIONS, Options
from sojourn.harness.options.rules import parse_options
from sojourn.traffic.user_program import UserProgramError, require_cached

#: Tables have seeds as Int64. Earlier versions accepted any.
_LARGEST_SEED = 2**63 - 1


def restored(record: Mapping[str, Any]) -> Options:
    """Return the options that `Options.record` wrote.

    The record is converted to a command line and parsed like one. Raises OptionsError for values that the
    command line rejects or changes, and for a record of another version of Sojourn.
    """
    names = {name for name, field in Options.model_fields.items() if not field.exclude}
    omitted = {name for name, field in Options.model_fields.items() if field.exclude_if}
    if odd := sorted((names ^ set(record)) - omitted):
        text = f"options.json: written by another version of Sojourn: {', '.join(odd)}"
        raise VersionError(text, code="other-version", option=odd[0])
    try:
        stored = _typed(record)
        require_cached(stored.programs)
        texts = _words(stored)
        if 0 <= stored.seed <= _LARGEST_SEED:  # those of a series follow the one that is given, which has a limit
            texts.pop("seed", None)
        # Earlier versions accepted runs that cannot have a baseline.
        options = parse_options({}, texts, stored.programs, baseline=False)
        # The results are those of the working directory, which differs for a rerun.
        options = options.replace(results=stored.results, seed=stored.seed)
        made = json.loads(json.dumps(options.record()))
    except OptionsError as wrong:
        raise OptionsError(f"options.json: {wrong}", code=wrong.code, option=wrong.option) from wrong
    except UserProgramError as missing:
        raise OptionsError(f"options.json: {missing}", code=missing.code, option="contenders") from missing
    except (OSError, RuntimeError, ValueError) as wrong:  # for paths, with the message of the Python version
        raise OptionsError(f"options.json: {wrong}", code="altered-record") from wrong
    if other := next((name for name, value in record.items() if made.get(name, value) != value), None):
        raise OptionsError(
            f"options.json: {other}: {reprlib.repr(record[other])} is not possible for a {options.service} run in the "
            f"{options.lab} lab; was the file changed?", code="altered-record", option=other,
        )  # fmt: skip
    # An equal number may have another type, which changes a job's bytes.
    return options.replace(phases=stored.phases)


def words(record: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return the options of a record by their command-line names, each as its command-line text.

    Raises OptionsError for a value whose type differs from its option's.
    """
    return _words(_typed(record))


def _typed(record: Mapping[str, Any]) -> Options:
    try:
        return Options.model_validate_json(json.dumps(record), strict=True)
    except ValidationError as wrong:
        field = str(wrong.errors()[0]["loc"][0])
        value = reprlib.repr(record.get(field))
        raise OptionsError(
            f"{field}: {value} is not a value that Sojourn writes", code="altered-record", option=field
        ) from wrong


#: Options that are on by default in the sim lab.
_ON_IN_SIM = frozenset({"rpm", "call-sound"})


def _words(options: Options) -> dict[str, str | bool]:
    victim = SERVICES.get(options.service)
    taken = victim.takes if victim else {}
    texts: dict[str, str | bool] = {}
    for option in OPTIONS:
        value = getattr(options, option.field)
        default = Options.model_fields[option.field].get_default()
        if not option.stored or option.name == "results" or value is None:
            continue
        turned_off = options.lab == "sim" and option.name in _ON_IN_SIM
        if value == default and not (turned_off and (option.group != "victim" or option.name in taken)):
            continue
        parts = (value, getattr(options, option.second)) if option.second else (value,)
        texts[option.name] = value if option.flag else option.word(*parts)
    return texts
