# Views: arrays that stay bytes because their objects would take too much memory.
# Part of messages.pyx. Uses messages_shape.pxi (Field, Walk), messages_walk.pxi (walk_value), messages_build.pxi (open_element,
# take_length) and messages.pyx (Program).

@cython.final
@cython.no_gc
cdef class _Source:
    """A walked frame, with the program for its views."""

    cdef bytes frame
    cdef Program program
    cdef const uint8_t *end


cdef ArrayView new_view(_Source source, Field *field, const uint8_t *at):
    cdef ArrayView view = ArrayView.__new__(ArrayView)
    view.source = source
    view.field = field
    view.length = take_length(&at, field.compact, 4)
    view.first = at
    view.cursor = at
    return view


@cython.final
@cython.no_gc
cdef class ArrayView:
    """A decoded array too large to become a list: a read-only sequence that makes its elements on access.

    Each access makes a new element. Iteration costs the same per element as with a list; so does access by rising
    index. The view keeps the whole frame alive: copy elements that are to stay.
    """

    cdef _Source source
    cdef Field *field
    cdef const uint8_t *first
    cdef Py_ssize_t length
    # The end of the last accessed element, so that rising indexes need no search.
    cdef const uint8_t *cursor
    cdef Py_ssize_t position

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self.at(i) for i in range(*index.indices(self.length))]
        cdef Py_ssize_t i = index
        if i < 0:
            i += self.length
        if not 0 <= i < self.length:
            raise IndexError("array index out of range")
        return self.at(i)

    cdef object at(self, Py_ssize_t index):
        cdef const uint8_t *at
        self.seek(index)
        # If an element could not be made, the cursor stays at its start.
        at = self.cursor
        element = open_element(self.source, self.field, &at)
        self.cursor = at
        self.position = index + 1
        return element

    cdef void seek(self, Py_ssize_t index) noexcept:
        cdef Walk walk
        if self.field.fixed:
            self.cursor = self.first + index * self.field.fixed
            return
        if index < self.position:
            self.cursor = self.first
            self.position = 0
        walk.cost = 0
        walk.shape = NULL
        while self.position < index:
            self.cursor = walk_value(self.field, self.cursor, self.source.end, False, &walk)
            self.position += 1

    def __iter__(self):
        cdef const uint8_t *at = self.first
        cdef Py_ssize_t i
        for i in range(self.length):
            yield open_element(self.source, self.field, &at)

    def __reversed__(self):
        return reversed(list(self))

    def __contains__(self, value):
        return any(value == element for element in self)

    def __eq__(self, other):
        if not isinstance(other, (ArrayView, list, tuple)):
            return NotImplemented
        return self.length == len(other) and all(mine == its for mine, its in zip(self, other))

    __hash__ = None

    def __repr__(self):
        shown = ", ".join(map(repr, self[:3]))
        return f"<{self.length} elements: {shown}{', ...' if self.length > 3 else ''}>"

    def index(self, value, start=0, stop=None):
        """The first position of `value`."""
        for i in range(*slice(start, stop).indices(self.length)):
            if self.at(i) == value:
                return i
        raise ValueError("the value is not in the array")

    def count(self, value):
        """How many elements equal `value`."""
        return sum(element == value for element in self)


Sequence.register(ArrayView)
