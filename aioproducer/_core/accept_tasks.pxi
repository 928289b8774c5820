# The tasks that get flush reports.
# Part of accept.pyx. Uses accept.pyx (PyLong_FromVoidPtr).

@cython.final
cdef class TaskOwner:
    """A task that gets reports, held weakly. It is the callback of its reference: a task that ends leaves no entry."""

    cdef public object told
    cdef dict _owners
    cdef object _key
    cdef object _task

    def __init__(self):
        raise TypeError("made by follow_task()")

    def __call__(self, _task):
        self._owners.pop(self._key, None)


def follow_task(dict owners not None, task not None, told not None):
    """The reports to this task begin here: a new entry of ``owners``, by the task's id."""
    cdef TaskOwner owner = TaskOwner.__new__(TaskOwner)
    owner.told = told
    owner._owners = owners
    owner._key = PyLong_FromVoidPtr(<void *>task)
    owner._task = PyWeakref_NewRef(task, owner)
    owners[owner._key] = owner
    return owner
