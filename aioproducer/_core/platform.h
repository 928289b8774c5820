/* The interpreters that the core is compiled for. Every module includes this first: elsewhere the compiler stops with one sentence. */
#ifndef AIOPRODUCER_PLATFORM_H
#define AIOPRODUCER_PLATFORM_H

#if defined(PYPY_VERSION) || defined(GRAALVM_PYTHON)
#error "aioproducer needs CPython: its core uses CPython's own structures"
#elif defined(Py_GIL_DISABLED)
#error "aioproducer needs the GIL: use the default build of CPython, not the free-threaded one"
#endif

#endif
