"""The insertion of a row with a connection of the program's own library, found by its type and never imported here."""

from __future__ import annotations

import inspect
from typing import Any

from aioproducer.errors import ConfigurationError
from aioproducer.outbox.columns import COLUMNS, Columns

__all__ = ["inserted"]


async def inserted(connection: Any, statement: str, row: Columns) -> int:
    """Run the statement, which has a place such as `{topic}` for each column; the id of the new row."""
    library = _library_of(connection)
    if library == "asyncpg":
        number = await connection.fetchval(_with_places(statement, "$1", "$2", "$3", "$4", "$5"), *row)
    elif library == "sqlalchemy":
        from sqlalchemy import text  # noqa: PLC0415  # the program has imported it

        named = text(_with_places(statement, *(f":{name}" for name in COLUMNS)))
        number = (await connection.execute(named, row._asdict())).first()[0]
    else:
        from psycopg.rows import tuple_row  # noqa: PLC0415  # the program has imported it

        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_with_places(statement.replace("%", "%%"), *["%s"] * len(COLUMNS)), row)
            number = (await cursor.fetchone())[0]
    return int(number)


def _with_places(statement: str, *places: str) -> str:
    for name, place in zip(COLUMNS, places, strict=True):
        statement = statement.replace(f"{{{name}}}", place)
    return statement


def _library_of(connection: Any) -> str:
    """The library of a connection whose calls are awaited."""
    names = {each.__module__.partition(".")[0] for each in type(connection).__mro__}
    if "asyncpg" in names or inspect.iscoroutinefunction(getattr(connection, "fetchval", None)):
        return "asyncpg"
    if inspect.iscoroutinefunction(getattr(connection, "execute", None)):
        for library in ("sqlalchemy", "psycopg"):
            if library in names:
                return library
    raise ConfigurationError(
        f"connection={type(connection).__name__}: pass a connection of asyncpg, an AsyncSession or AsyncConnection of "
        "SQLAlchemy, or an AsyncConnection of psycopg"
    )
