# The time, as the fast path reads it.
# Part of records.pyx. Uses clock.h through it (aioproducer_monotonic, aioproducer_wall_ms).

cdef class Clock:
    """The system's clocks: monotonic seconds for fairness and deadlines, wall milliseconds for timestamps."""

    cdef double now(self) noexcept:
        return aioproducer_monotonic()

    cdef long long wall(self) noexcept:
        return aioproducer_wall_ms()

    cdef long long wall_at(self, double now) noexcept:
        # Timestamps count milliseconds: half of one may pass between two readings of the wall clock.
        if not self._looked_at <= now < self._looked_at + 0.0005:
            self._looked_at = now
            self._wall_seen = aioproducer_wall_ms()
        return self._wall_seen


cdef class ManualClock(Clock):
    """A clock that stands still until it is set: for tests and simulations."""

    def __init__(self, double monotonic=0.0, long long wall_ms=0):
        self.monotonic = monotonic
        self.wall_ms = wall_ms

    cdef double now(self) noexcept:
        return self.monotonic

    cdef long long wall(self) noexcept:
        return self.wall_ms

    cdef long long wall_at(self, double now) noexcept:
        return self.wall_ms
