"""Modules that a call loads before it uses them: in a thread, because an import reads files and takes its time."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sys
import threading
from collections.abc import Iterable
from importlib import import_module

__all__ = ["load"]

# Held by the thread that imports. A fork waits for it: in the child that thread is gone, and an import that it has begun would
# never end.
_importing = threading.RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
    )


async def load(*modules: str) -> None:
    """Import those that are missing; the event loop goes on meanwhile. Where all are there, the call does not wait."""
    missing = [name for name in modules if not _is_there(name)]
    if not missing:
        return
    try:
        # Its thread ends with its work; that of the loop would stay, and a process with threads should not be forked.
        executor = concurrent.futures.ThreadPoolExecutor(1)
        loading = asyncio.get_running_loop().run_in_executor(executor, _import_all, missing)
    except RuntimeError:
        # The process has no thread to give: the interpreter ends, and this is a function that `atexit` calls.
        _import_all(missing)
        return
    try:
        await loading
    finally:
        executor.shutdown(wait=False)


def _is_there(name: str) -> bool:
    """Whether the module is imported, and no other thread is still busy with that."""
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _import_all(names: Iterable[str]) -> None:
    with _importing:
        for name in names:
            import_module(name)
