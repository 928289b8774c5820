# Part of accept.pyx. Uses accept.pyx (SendPath).
"""`inspect.iscoroutinefunction` is true of the calls that are awaited, so that mocks and frameworks await them.

They are compiled functions that return a `Sending`, or a coroutine. `inspect` reads a flag of the function's code
object, in all versions of Python. Nothing else reads the flag, as compiled functions do not run by their code object.
"""

cdef extern from *:
    # Cython's own type of a function. Its name is checked by the C compiler.
    ctypedef struct CompiledFunction "__pyx_CyFunctionObject":
        PyObject *func_code

cdef int CO_COROUTINE = 0x80


cdef void seen_as_coroutine_function(object function) except *:
    cdef CompiledFunction *compiled = <CompiledFunction *><PyObject *>function
    code = function.__code__
    flagged = code.replace(co_flags=code.co_flags | CO_COROUTINE)
    Py_INCREF(flagged)
    compiled.func_code = <PyObject *>flagged
    Py_DECREF(code)


seen_as_coroutine_function(SendPath.__dict__["send"])
seen_as_coroutine_function(SendPath.__dict__["send_and_wait"])
seen_as_coroutine_function(SendPath.__dict__["send_batch"])
seen_as_coroutine_function(SendPath.__dict__["flush"])
