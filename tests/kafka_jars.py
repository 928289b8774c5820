"""The places of the real Kafka's jars, and of the Java that runs them."""

from __future__ import annotations

from tools.kafka_jars import class_path, jar_folder, program

__all__ = ["class_path", "jar_folder", "program"]
