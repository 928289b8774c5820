"""The names of OpenTelemetry's semantic conventions 1.44 that this package uses, and its own."""

from __future__ import annotations

SCOPE = "aioproducer"
SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"

# -- attributes of messaging

SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
CLIENT_ID = "messaging.client.id"
MESSAGE_COUNT = "messaging.batch.message_count"
OFFSET = "messaging.kafka.offset"
KEY = "messaging.kafka.message.key"
TOMBSTONE = "messaging.kafka.message.tombstone"

# -- general attributes

SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"

# -- values of attributes

KAFKA = "kafka"
SEND = "send"

# -- attributes of this library

ATTEMPTS = "aioproducer.batch.attempts"
BATCH_BYTES = "aioproducer.batch.bytes"
QUEUE_SECONDS = "aioproducer.batch.queue_seconds"
OUTCOME = "aioproducer.outcome"
LINKS_DROPPED = "aioproducer.links.dropped"

# -- metrics of messaging

SENT_MESSAGES = "messaging.client.sent.messages"
OPERATION_DURATION = "messaging.client.operation.duration"
# In seconds.
DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

# The attributes that all spans and metrics of sends have.
OF_SENDS = {SYSTEM: KAFKA, OPERATION_NAME: SEND, OPERATION_TYPE: SEND}
