/* The two clocks of the fast path: monotonic seconds (as time.monotonic()) and wall-clock milliseconds. */
#ifndef AIOPRODUCER_CLOCK_H
#define AIOPRODUCER_CLOCK_H

#ifdef _WIN32
#include <windows.h>

static double aioproducer_monotonic(void) {
    LARGE_INTEGER ticks, frequency;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&ticks);
    return (double)ticks.QuadPart / (double)frequency.QuadPart;
}

static long long aioproducer_wall_ms(void) {
    FILETIME now;
    ULARGE_INTEGER value;
    GetSystemTimePreciseAsFileTime(&now);
    value.LowPart = now.dwLowDateTime;
    value.HighPart = now.dwHighDateTime;
    /* FILETIME counts 100 ns since 1601; Kafka counts ms since 1970. */
    return (long long)(value.QuadPart / 10000ULL) - 11644473600000LL;
}
#else
#include <time.h>

static double aioproducer_monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static long long aioproducer_wall_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
#endif
#endif
