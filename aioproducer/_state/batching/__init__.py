"""Which records share a batch, which batch is sent next, and which number it has."""
