"""An application that sends to Kafka (orders.py), and its tests (test_orders.py): pytest examples/testing_your_code."""
