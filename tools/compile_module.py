"""Compile one module of the core into the tree, also if it is up to date.

    python tools/compile_module.py aioproducer._core.records

The module's entry in pyproject.toml has its sources and options. `tools/setup_venv.py` knows which modules have
changed.
"""

from __future__ import annotations

import sys

from setuptools import Distribution


def compile_module(name: str) -> None:
    """Run `build_ext` for one of the modules."""
    # In pyproject.toml the long description is dynamic, so this needs one.
    distribution = Distribution({"long_description": ""})
    distribution.parse_config_files()
    distribution.ext_modules = [each for each in distribution.ext_modules if each.name == name]
    command = distribution.get_command_obj("build_ext")
    command.inplace = command.force = True
    command.verbose = 0
    distribution.run_command("build_ext")


if __name__ == "__main__":
    compile_module(*sys.argv[1:])
