"""Actions: the only client code that knows asyncio, anyio, ssl, a clock."""
