#define _GNU_SOURCE
#include "crash.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

_Thread_local struct crash_place *crash_current __attribute__((tls_model("initial-exec")));

// Kafka limits a topic's name to 249 bytes.
enum { name_size = 256 };

struct page {
    pid_t supervisor;
    int is_alone;
    int64_t death_count;
    // The value of `death_count` at the last call of `crash_is_new`.
    int64_t known_count;
    struct crash_death deaths[CRASH_DEATH_LIMIT];
    // Each thread writes to its own cache line.
    struct {
        struct crash_place place;
    } __attribute__((aligned(64))) current[CRASH_THREADS];
    int32_t topic_count;
    char topics[CRASH_TOPIC_LIMIT][name_size];
};

// The shared page, or NULL in a process that is neither a supervisor nor its worker.
static struct page *page;

static int map(int descriptor) {
    void *memory = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) return -1;
    page = memory;
    return 0;
}

// MARK: Supervisor

int crash_page_make(void) {
    int descriptor = memfd_create("apns-worker", 0);
    if (descriptor < 0) return -1;
    if (ftruncate(descriptor, sizeof *page) != 0 || map(descriptor) != 0) {
        close(descriptor);
        return -1;
    }
    page->supervisor = getpid();
    return descriptor;
}

void crash_add_death(int signal) {
    struct crash_death *death = &page->deaths[page->death_count % CRASH_DEATH_LIMIT];
    death->signal = signal;
    for (int thread = 0; thread < CRASH_THREADS; thread++) {
        death->places[thread] = page->current[thread].place;
        page->current[thread].place.topic = 0;
    }
    page->death_count++;
}

int crash_is_alone(void) { return page && page->is_alone; }

// MARK: Worker

int crash_page_adopt(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) != 0 || status.st_size != sizeof *page || map(descriptor) != 0) return -1;
    close(descriptor);
    // The kernel sends no signal if the supervisor died before this call (prctl(2)), so check the parent afterwards.
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == page->supervisor ? 0 : -1;
}

void crash_run_alone(void) {
    if (page) page->is_alone = 1;
}

void crash_enter_thread(int thread) { crash_current = page ? &page->current[thread].place : NULL; }

static int32_t find(const void *bytes, int32_t count) {
    for (int32_t index = 0; index < page->topic_count; index++) {
        const char *name = page->topics[index];
        if (memcmp(name, bytes, (size_t)count) == 0 && name[count] == 0) return index + 1;
    }
    return 0;
}

int32_t crash_topic(const void *bytes, int32_t count) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!page || count >= name_size) return 0;
    pthread_mutex_lock(&lock);
    int32_t topic = find(bytes, count);
    if (topic == 0 && page->topic_count < CRASH_TOPIC_LIMIT) {
        memcpy(page->topics[page->topic_count], bytes, (size_t)count);
        // The count is increased last, so that a worker that dies while it copies the name leaves no partial name.
        topic = ++page->topic_count;
    }
    pthread_mutex_unlock(&lock);
    return topic;
}

const char *crash_topic_name(int32_t topic) {
    return page && topic > 0 && topic <= page->topic_count ? page->topics[topic - 1] : NULL;
}

int crash_is_new(void) {
    if (!page || page->known_count == page->death_count) return 0;
    page->known_count = page->death_count;
    return 1;
}

int64_t crash_death_count(void) { return page ? page->death_count : 0; }

struct crash_death crash_death(int64_t number) { return page->deaths[number % CRASH_DEATH_LIMIT]; }

void crash_forget(const void *topic, int32_t count, int32_t partition) {
    int32_t number = page && count < name_size ? find(topic, count) : 0;
    if (number == 0) return;
    for (int index = 0; index < CRASH_DEATH_LIMIT; index++)
        for (int thread = 0; thread < CRASH_THREADS; thread++) {
            struct crash_place *place = &page->deaths[index].places[thread];
            if (place->topic == number && place->partition == partition) place->topic = 0;
        }
}
