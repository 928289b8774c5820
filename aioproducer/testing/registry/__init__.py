"""A schema registry in this process: Confluent's REST API over loopback."""
