"""One connection: requests and answers, the gate of its requests, the departure from it, and its end."""
