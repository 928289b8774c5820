"""The build settings that pyproject.toml cannot have: linking of the compiled modules, and absolute links of the README.

On Linux the compiled modules of a wheel have no symbols, which are five times their code. Modules that are compiled in
place keep them, for debuggers and profilers.
"""

import re
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!\w+:|#)([^)\s]+)\)")


class Stripped(build_ext):
    """The linker leaves the symbols out."""

    def build_extension(self, ext: Extension) -> None:
        """Compile and link one module."""
        if sys.platform == "linux" and not self.inplace and not self.editable_mode:
            ext.extra_link_args = [*ext.extra_link_args, "-Wl,-s"]
        super().build_extension(ext)


def long_description() -> str:
    """The README with absolute links: a package index has no other files to link to."""
    source = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]

    def absolute(link: re.Match[str]) -> str:
        image, words, path = link.groups()
        return f"{image}{words}({source}/{'raw' if image else 'blob'}/main/{path})"

    return LINK.sub(absolute, (ROOT / "README.md").read_text(encoding="utf-8"))


setup(
    cmdclass={"build_ext": Stripped},
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
