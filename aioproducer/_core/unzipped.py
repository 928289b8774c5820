"""Compiled modules cannot be imported from a zip, which is how Spark's --py-files ships packages: this says so."""

from __future__ import annotations

from zipimport import zipimporter

__all__: list[str] = []

if isinstance(__spec__.loader, zipimporter):
    raise ImportError(
        f"aioproducer is compiled, and cannot be imported from the zip {__spec__.loader.archive} (--py-files, addPyFile): "
        "install it for the Python that Spark runs, or ship an environment that has it by --archives; "
        "see docs/spark-clusters.md"
    )
