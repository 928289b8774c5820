"""The manifest for Kubernetes in docs/spark-clusters.md, which is not run: its text fits together."""

from __future__ import annotations

from typing import Any

import yaml

from tests.repo.documents.document_code import blocks
from tests.repo.source import ROOT


def test_the_manifest_fits_together() -> None:
    """It is YAML, mounts only its volumes, and runs the program that the image has."""
    texts = [block.source for block in blocks(ROOT / "docs" / "spark-clusters.md")]
    (manifest,) = (text for text in texts if text.startswith("apiVersion:"))
    (image,) = (text for text in texts if text.startswith("FROM "))
    found: Any = yaml.safe_load(manifest)
    assert found["kind"] == "SparkApplication"
    spec = found["spec"]
    assert spec["mainApplicationFile"].removeprefix("local://") in image
    for role in ("driver", "executor"):
        mounted = {mount["name"] for mount in spec[role]["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in spec["volumes"]}
