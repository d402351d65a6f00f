# SPDX-License-Identifier: Apache-2.0
"""Run the steps of action.yml on this machine: `python run_steps.py measure=false results=FOLDER thresholds=FILE`.

It knows the part of the language that this action uses and refuses everything else.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ACTION = Path(__file__).with_name("action.yml")
_BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]  # as GitHub starts it


class Steps:
    """The steps of an action with these inputs, in a folder with the files by which steps talk to GitHub."""

    def __init__(self, action: Mapping[str, Any], inputs: Mapping[str, str], folder: Path) -> None:
        if unknown := inputs.keys() - action["inputs"].keys():
            raise SystemExit(f"no such input: {', '.join(sorted(unknown))}; known: {', '.join(action['inputs'])}")
        self.inputs = {name: inputs.get(name, it["default"]) for name, it in action["inputs"].items()}
        self.outputs: dict[str, str] = {}
        self.steps = action["runs"]["steps"]
        self.path = os.environ["PATH"]
        self.files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")}

    def run(self) -> int:
        """Run them and return the exit code of the first that fails."""
        for step in self.steps:
            if unknown := step.keys() - {"name", "id", "if", "shell", "env", "run"}:
                raise SystemExit(f"{step['name']}: run_steps.py does not know {', '.join(unknown)}")
            if "if" in step and self.value(step["if"]) != "true":
                print(f"== {step['name']}: skipped", flush=True)
                continue
            print(f"== {step['name']}", flush=True)
            if code := self.perform(step):
                return code
        return 0

    def perform(self, step: Mapping[str, Any]) -> int:
        for name in ("GITHUB_OUTPUT", "GITHUB_PATH"):
            self.files[name].write_text("")
        given = {name: self.filled(str(text)) for name, text in step.get("env", {}).items()}
        github = {name: str(file) for name, file in self.files.items()} | {"GITHUB_ACTION_PATH": str(ACTION.parent)}
        env = {**os.environ, **github, **given, "PATH": self.path}
        code = subprocess.run([*_BASH, self.filled(step["run"])], env=env, check=False).returncode
        for line in self.files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"steps.{step['id']}.outputs.{name}"] = value
        self.path = ":".join([*self.files["GITHUB_PATH"].read_text().splitlines(), self.path])
        return code

    def filled(self, text: str) -> str:
        return re.sub(r"\$\{\{(.*?)\}\}", lambda match: self.value(match[1].strip()), text)

    def value(self, expression: str) -> str:
        """Return the value of a name, a comparison `NAME == 'text'`, or a choice `COMPARISON && 'this' || 'that'`."""
        if choice := re.fullmatch(r"(.+) && '([^']*)' \|\| '([^']*)'", expression):
            return choice[2] if self.value(choice[1]) == "true" else choice[3]
        if equal := re.fullmatch(r"(\S+) == '([^']*)'", expression):
            return str(self.value(equal[1]) == equal[2]).lower()
        if expression.startswith("inputs."):
            return self.inputs[expression.removeprefix("inputs.")]
        return self.outputs[expression]


def main() -> None:
    """Run the steps with the inputs on the command line, in words NAME=VALUE."""
    inputs = dict(word.split("=", 1) for word in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        raise SystemExit(Steps(yaml.safe_load(ACTION.read_text()), inputs, Path(folder)).run())


if __name__ == "__main__":
    main()
