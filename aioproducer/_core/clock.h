/* The two clocks of the fast path: monotonic seconds (those of time.monotonic()) and wall-clock milliseconds.

   Deadlines are set by this clock and looked at by the event loop's, so both must count from the same moment:
   time.monotonic() leaves out the time a Mac was asleep, which CLOCK_MONOTONIC counts, and before Python 3.13 it
   moves in steps of 16 ms on Windows. */
#ifndef AIOPRODUCER_CLOCK_H
#define AIOPRODUCER_CLOCK_H

#include <Python.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <time.h>
#endif

static double aioproducer_monotonic(void) {
#if (defined(_WIN32) || defined(__APPLE__)) && PY_VERSION_HEX >= 0x030D0000
    PyTime_t now;
    PyTime_MonotonicRaw(&now);
    return PyTime_AsSecondsDouble(now);
#elif defined(_WIN32)
    return 1e-3 * (double)GetTickCount64();
#elif defined(__APPLE__)
    return 1e-9 * (double)clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
#endif
}

static long long aioproducer_wall_ms(void) {
#ifdef _WIN32
    FILETIME now;
    ULARGE_INTEGER value;
    GetSystemTimePreciseAsFileTime(&now);
    value.LowPart = now.dwLowDateTime;
    value.HighPart = now.dwHighDateTime;
    /* FILETIME counts 100 ns since 1601; Kafka counts ms since 1970. */
    return (long long)(value.QuadPart / 10000ULL) - 11644473600000LL;
#else
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
#endif
}
#endif
