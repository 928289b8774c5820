/* Makes one allocation fail: the nth from now on, of all, or of those that C makes for the Python frame that has asked. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyMemAllocatorEx below[2];
static const PyMemAllocatorDomain domains[2] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
static long left = 0;
static int failed = 0;
static void *only_for = NULL;

static void *frame_now(void) {
    PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030D0000
    return thread->current_frame;
#else
    return thread->cframe->current_frame;
#endif
}

/* What CPython itself reads through NULL for, if there is no memory for it: the sum of two floats (`x + y` alone ends the process),
   and a function (a `lambda`: PyFunction_New). */
static int is_spared(size_t size) {
#if PY_VERSION_HEX >= 0x030E0000
    return size == sizeof(PyFloatObject);
#elif PY_VERSION_HEX >= 0x030C0000
    return size == sizeof(PyFunctionObject) + 2 * sizeof(void *);
#else
    return 0;
#endif
}

/* True when this one is to fail. */
static int starves(size_t size) {
    if (left <= 0 || is_spared(size) || (only_for != NULL && frame_now() != only_for)) return 0;
    if (--left > 0) return 0;
    failed = 1;
    return 1;
}

static void *failing_malloc(void *of, size_t size) {
    PyMemAllocatorEx *next = of;
    return starves(size) ? NULL : next->malloc(next->ctx, size);
}
static void *failing_calloc(void *of, size_t count, size_t size) {
    PyMemAllocatorEx *next = of;
    return starves(count * size) ? NULL : next->calloc(next->ctx, count, size);
}
static void *failing_realloc(void *of, void *memory, size_t size) {
    PyMemAllocatorEx *next = of;
    return starves(size) ? NULL : next->realloc(next->ctx, memory, size);
}
static void plain_free(void *of, void *memory) {
    PyMemAllocatorEx *next = of;
    next->free(next->ctx, memory);
}

static PyObject *fail(PyObject *self, PyObject *args) {
    long nth;
    int own;
    if (!PyArg_ParseTuple(args, "lp", &nth, &own)) return NULL;
    failed = 0;
    only_for = own ? frame_now() : NULL;
    left = nth;
    Py_RETURN_NONE;
}

static PyObject *over(PyObject *self, PyObject *unused) {
    left = 0;
    return PyBool_FromLong(failed);
}

static PyMethodDef methods[] = {
    {"fail", fail, METH_VARARGS, "fail(nth, own): the nth allocation fails; own: of those that C makes for the caller's frame."},
    {"over", over, METH_NOARGS, "Nothing fails any more; returns whether something has."},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "starvation", NULL, -1, methods};

PyMODINIT_FUNC PyInit_starvation(void) {
    for (int i = 0; i < 2; i++) {
        PyMem_GetAllocator(domains[i], &below[i]);
        PyMemAllocatorEx above = {&below[i], failing_malloc, failing_calloc, failing_realloc, plain_free};
        PyMem_SetAllocator(domains[i], &above);
    }
    return PyModule_Create(&definition);
}
