// ClockTests preload this library into a worker (LD_PRELOAD). It shifts the wall clock by CLOCK_SHIFT_S seconds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t shift(void) {
    const char *seconds = getenv("CLOCK_SHIFT_S");
    return seconds ? atoll(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int code = next(clock, time);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift();
    return code;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    int (*next)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int code = next(time, zone);
    if (code == 0) time->tv_sec += shift();
    return code;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
