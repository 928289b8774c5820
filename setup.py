"""What pyproject.toml cannot say: on Linux the compiled modules of a wheel carry no symbols, which are five times their code.

In a tree where they are compiled in place they keep them, for debuggers and profilers.
"""

import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class Stripped(build_ext):
    """The linker leaves the symbols out."""

    def build_extension(self, ext: Extension) -> None:
        """Compile and link one module."""
        if sys.platform == "linux" and not self.inplace and not self.editable_mode:
            ext.extra_link_args = [*ext.extra_link_args, "-Wl,-s"]
        super().build_extension(ext)


setup(cmdclass={"build_ext": Stripped})
