"""Refuses an import from a zip, as Spark's --py-files ships packages: it cannot contain compiled modules."""

from __future__ import annotations

from zipimport import zipimporter

from aioproducer.documentation import page

__all__: list[str] = []

if isinstance(__spec__.loader, zipimporter):
    raise ImportError(
        f"aioproducer is compiled and cannot be imported from the zip {__spec__.loader.archive} (--py-files, addPyFile): "
        "install it for the Python that Spark runs, or ship an environment that contains it by --archives; "
        f"see {page('spark-clusters.md')}"
    )
