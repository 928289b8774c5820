/* Tuples, also of a named type, that are made without calling their type. Each item is set once, before other code sees
   the tuple. */
#ifndef AIOPRODUCER_TUPLES_H
#define AIOPRODUCER_TUPLES_H

#include <Python.h>

static inline PyObject *aioproducer_new_tuple(PyObject *type, Py_ssize_t size) {
    PyObject *made = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, size);
#if PY_VERSION_HEX >= 0x030E0000
    /* From Python 3.14 on a tuple keeps its hash; -1 means that it is not computed yet. */
    if (made != NULL)
        ((PyTupleObject *)made)->ob_hash = -1;
#endif
    return made;
}
#endif
