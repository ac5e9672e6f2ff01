// What may be unpacked for whom: limits, by the library that calls.
#define _GNU_SOURCE
#include "CUnpacking.h"
#include "batches.h"
#include "elf_library.h"
#include <malloc.h>
#include <pthread.h>

static caller_limits libraries[UNPACKING_CALLERS];
static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;

const caller_limits *limits_of(const void *caller) {
    for (int index = 0; index < UNPACKING_CALLERS; index++) {
        uintptr_t start = atomic_load_explicit(&libraries[index].start, memory_order_relaxed);
        if ((uintptr_t)caller - start < atomic_load_explicit(&libraries[index].size, memory_order_acquire)) {
            return &libraries[index];
        }
    }
    return NULL;
}

bool unpacking_limit(size_t batch_bytes, size_t heap_bytes, const void *caller) {
    elf_library found = {.function = (uintptr_t)caller};
    if (!find_library(&found)) return false;
    pthread_mutex_lock(&libraries_lock);
    int index = 0;
    while (index < UNPACKING_CALLERS && libraries[index].size && libraries[index].start != found.start) index++;
    if (index < UNPACKING_CALLERS) {
        atomic_store(&libraries[index].batch_bytes, batch_bytes);
        atomic_store(&libraries[index].heap_bytes, heap_bytes);
        atomic_store(&libraries[index].start, found.start);
        atomic_store(&libraries[index].size, found.end - found.start);
    }
    pthread_mutex_unlock(&libraries_lock);
    return index < UNPACKING_CALLERS && unpacking_is_reached(caller);
}

void unpacking_tune_malloc(void) {
    // Above what a fetch takes, whose buffer comes and goes all the time.
    mallopt(M_MMAP_THRESHOLD, 2 << 20);
    // As glibc has it when it raises the threshold itself.
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
}
