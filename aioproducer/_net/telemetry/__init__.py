"""Client telemetry: the requests about metrics over the control connection."""
