/* What the message codec does in C: numbers in network order, checked UTF-8, tuples that are filled. */
#ifndef AIOPRODUCER_MESSAGES_H
#define AIOPRODUCER_MESSAGES_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t wire_load16(const uint8_t *p) { return (uint16_t)(((uint16_t)p[0] << 8) | p[1]); }
static inline uint32_t wire_load32(const uint8_t *p) {
    return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | p[3];
}
static inline uint64_t wire_load64(const uint8_t *p) {
    return ((uint64_t)wire_load32(p) << 32) | wire_load32(p + 4);
}
static inline double wire_load_double(const uint8_t *p) {
    uint64_t bits = wire_load64(p);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
static inline uint64_t wire_double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}
static inline void wire_store(uint8_t *p, uint64_t value, int size) {
    while (size--) { p[size] = (uint8_t)value; value >>= 8; }
}

/* A tuple that the collector does not see yet: it starts to look at it once every slot is filled. */
static PyObject *wire_new_tuple(PyTypeObject *type, Py_ssize_t size) {
    PyTupleObject *made = PyObject_GC_NewVar(PyTupleObject, type, size);
    if (made == NULL) return NULL;
#if PY_VERSION_HEX >= 0x030E0000
    made->ob_hash = -1;
#endif
    memset(made->ob_item, 0, (size_t)size * sizeof(PyObject *));
    return (PyObject *)made;
}
static inline void wire_set_slot(PyObject *tuple, Py_ssize_t slot, PyObject *value) {
    Py_INCREF(value);
    PyTuple_SET_ITEM(tuple, slot, value);
}

/* How many characters valid UTF-8 holds and the largest of them; -1 when it is not valid. */
static Py_ssize_t wire_scan_utf8(const uint8_t *p, Py_ssize_t size, uint32_t *largest) {
    const uint8_t *end = p + size;
    Py_ssize_t characters = 0;
    uint32_t seen = 0;
    while (p < end) {
        uint32_t c = *p;
        int more;
        uint32_t least;
        if (c < 0x80) {
            while (end - p >= 8) {
                uint64_t eight;
                memcpy(&eight, p, 8);
                if (eight & 0x8080808080808080ULL) break;
                p += 8;
                characters += 8;
            }
            while (p < end && *p < 0x80) { p++; characters++; }
            seen |= 0x7f;
            continue;
        }
        if (c >= 0xc2 && c < 0xe0) { more = 1; least = 0x80; c &= 0x1f; }
        else if (c >= 0xe0 && c < 0xf0) { more = 2; least = 0x800; c &= 0x0f; }
        else if (c >= 0xf0 && c < 0xf5) { more = 3; least = 0x10000; c &= 0x07; }
        else return -1;
        if (end - p <= more) return -1;
        for (int i = 1; i <= more; i++) {
            if ((p[i] & 0xc0) != 0x80) return -1;
            c = (c << 6) | (p[i] & 0x3f);
        }
        if (c < least || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return -1;
        if (c > seen) seen = c;
        p += more + 1;
        characters++;
    }
    *largest = seen;
    return characters;
}

/* The text of scanned UTF-8, in exactly the memory it needs; CPython's decoder holds up to three buffers. */
static PyObject *wire_text(const uint8_t *p, Py_ssize_t size) {
    uint32_t largest = 0;
    Py_ssize_t characters = wire_scan_utf8(p, size, &largest);
    PyObject *text = PyUnicode_New(characters, largest);
    if (text == NULL || characters == 0) return text;
    int kind = PyUnicode_KIND(text);
    void *data = PyUnicode_DATA(text);
    if (largest < 0x80) { memcpy(data, p, (size_t)size); return text; }
    for (Py_ssize_t i = 0; i < characters; i++) {
        uint32_t c = *p++;
        int more = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
        if (more) c &= 0x3f >> more;
        while (more--) c = (c << 6) | (*p++ & 0x3f);
        PyUnicode_WRITE(kind, data, i, c);
    }
    return text;
}

#endif
