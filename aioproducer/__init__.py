"""An asyncio-native producer for Apache Kafka."""

from __future__ import annotations
