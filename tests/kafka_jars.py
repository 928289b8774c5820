"""Where tests find the jars of the real Kafka, and the Java to run them."""

from __future__ import annotations

from tools.kafka_jars import class_path, jar_folder, program

__all__ = ["class_path", "jar_folder", "program"]
