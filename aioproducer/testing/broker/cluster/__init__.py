"""The state that all brokers share: topics, leaders, groups and transactions."""
