# SPDX-License-Identifier: Apache-2.0
"""Why options are refused."""

from __future__ import annotations

from sojourn.hardware.machine.errors import Code


class OptionsError(ValueError):
    """An option that cannot work; the text is one line that names the option or the file, and says what would be right.

    `option` is its name, empty where the whole file is wrong; `code` does not change when the text does.
    """

    def __init__(self, text: str, *, code: Code = "invalid-value", option: str = "") -> None:
        super().__init__(text)
        self.code, self.option = code, option


class VersionError(OptionsError):
    """The options are those of another version of Sojourn."""
