#define _GNU_SOURCE
#include "crash.h"
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Thread_local const struct crash_place *volatile crash_current __attribute__((tls_model("initial-exec")));

enum {
    stack_size = 64 * 1024,
    // A topic has at most 249 bytes; the rest are four numbers.
    entry_size = 400,
    // In seconds: what a backtrace may take. Swift's own looks names up, and has a limit of 30 by itself.
    patience = 60,
};

static const int deaths[] = {SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGABRT};
enum { death_count = sizeof deaths / sizeof *deaths };

// The environment's own entry, with room for one death.
struct note {
    // Where the text ends, and the death is appended.
    char *entry;
    char text[];
};
static struct note *_Atomic note;

// Written before the handlers are there, and only read by them.
static struct {
    char **arguments;
    char **environment;
    // Where the environment's own entry is.
    char **place;
    const char *prefix;
    sigset_t mask;
    struct sigaction before[death_count];
} prepared;

static atomic_bool is_contained;
// A signal to stop that was taken; 0: none.
static atomic_int stopping;
// The thread that died first, and how far it is.
static atomic_int dying_thread;
// What it tells the next one: as it was when it died.
static struct note *left;
static atomic_int stage;
enum { telling = 1, tracing, replacing };

// MARK: What a handler may do (signal-safety(7)): no malloc, no stdio.

struct text {
    char *bytes;
    size_t count, size;
};

static void append(struct text *text, const char *more, size_t count) {
    while (count-- > 0 && text->count < text->size) text->bytes[text->count++] = *more++;
}

static void append_word(struct text *text, const char *word) { append(text, word, strlen(word)); }

static void append_number(struct text *text, int64_t number) {
    char digits[20];
    int at = sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do digits[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0) append(text, "-", 1);
    append(text, digits + at, sizeof digits - (size_t)at);
}

// Kafka's topics have letters, digits, `.`, `_` and `-` only.
static void append_topic(struct text *text, const struct crash_place *place) {
    const char *topic = place->topic;
    if (!topic) return;
    int32_t count = place->topic_count < 249 ? place->topic_count : 249;
    for (int32_t index = 0; index < count; index++) {
        char byte = topic[index];
        int is_fine = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                      byte == '.' || byte == '_' || byte == '-';
        append(text, is_fine ? &byte : "?", 1);
    }
}

static void write_out(const struct text *text) {
    for (size_t done = 0; done < text->count;) {
        ssize_t count = write(STDERR_FILENO, text->bytes + done, text->count - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;
        done += (size_t)count;
    }
}

static const char *name_of(int number) {
    switch (number) {
    case SIGILL: return "SIGILL";
    case SIGTRAP: return "SIGTRAP";
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    default: return "SIGABRT";
    }
}

// What the next one is told: that there was a death, and where.
static void leave_word(int number, const struct crash_place *place) {
    struct timespec time = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &time);
    char bytes[entry_size];
    struct text entry = {bytes, 0, sizeof bytes};
    append_word(&entry, ";");
    append_number(&entry, number);
    append_word(&entry, ",");
    append_number(&entry, (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000);
    append_word(&entry, ",");
    if (place) {
        append_number(&entry, place->partition);
        append_word(&entry, ",");
        append_number(&entry, place->offset);
        append_word(&entry, ",");
        append_topic(&entry, place);
    } else {
        append_word(&entry, "-,-,-");
    }
    memcpy(left->entry, bytes, entry.count);
    left->entry[entry.count] = 0;
}

static void tell(int number) {
    char bytes[700];
    struct text line = {bytes, 0, sizeof bytes};
    const struct crash_place *place = crash_current;
    // First without it: where memory is broken, looking at the place may be the next death.
    leave_word(number, NULL);
    if (place) leave_word(number, place);
    append_word(&line, prepared.prefix);
    append_word(&line, ": died of ");
    append_word(&line, name_of(number));
    if (place) {
        append_word(&line, " at record ");
        append_topic(&line, place);
        append_word(&line, "/");
        append_number(&line, place->partition);
        append_word(&line, "/");
        append_number(&line, place->offset);
    } else {
        append_word(&line, " at no record that is known");
    }
    append_word(&line, "; starting again in the same process\n");
    write_out(&line);
}

static void trace(int number, siginfo_t *information, void *context) {
    for (int index = 0; index < death_count; index++) {
        const struct sigaction *before = &prepared.before[index];
        // Swift's own (SWIFT_BACKTRACE) has names and lines, and returns.
        if (deaths[index] == number && (before->sa_flags & SA_SIGINFO) && before->sa_sigaction) {
            before->sa_sigaction(number, information, context);
            return;
        }
    }
    void *frames[64];
    int count = backtrace(frames, 64);
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

static _Noreturn void end(int number) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(number, &plain, NULL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    _exit(128 + number);
}

static void close_others_on_exec(void) {
#ifdef SYS_close_range
    enum { cloexec = 4 }; // CLOSE_RANGE_CLOEXEC, Linux 5.11
    if (syscall(SYS_close_range, 3u, ~0u, cloexec) == 0) return;
#endif
    struct rlimit limit;
    int last = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 65536 ? (int)limit.rlim_cur : 65536;
    for (int descriptor = 3; descriptor < last; descriptor++) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

static _Noreturn void replace(int number) {
    atomic_store(&stage, replacing);
    close_others_on_exec();
    // A signal to stop that came and was not heard yet, or comes meanwhile, is heard by the next one.
    int stop = atomic_load(&stopping);
    pthread_sigmask(SIG_SETMASK, &prepared.mask, NULL);
    // To this thread, which is the one that lives on: another would take it.
    if (stop) syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), stop);
    alarm(0);
    *prepared.place = left->text;
    execve("/proc/self/exe", prepared.arguments, prepared.environment);
    char bytes[200];
    struct text line = {bytes, 0, sizeof bytes};
    append_word(&line, prepared.prefix);
    append_word(&line, ": cannot be started again (/proc/self/exe, errno ");
    append_number(&line, errno);
    append_word(&line, ")\n");
    write_out(&line);
    end(number);
}

static void handle(int number, siginfo_t *information, void *context) {
    if (information->si_code == SI_USER && information->si_pid != getpid()) end(number);
    int thread = (int)syscall(SYS_gettid), first = 0;
    if (!atomic_compare_exchange_strong(&dying_thread, &first, thread)) {
        // execve(2) ends the threads that wait here.
        if (first != thread)
            for (;;) pause();
        // It died once more while it told of its death: of the place, which is given up, or of the backtrace.
        int reached = atomic_load(&stage);
        if (reached >= replacing) end(number);
        atomic_store(&stage, tracing);
        crash_current = NULL;
        if (reached == telling) tell(number);
        replace(number);
    }
    // Whatever hangs from here on ends the process.
    signal(SIGALRM, SIG_DFL);
    alarm(patience);
    left = atomic_load(&note);
    atomic_store(&stage, telling);
    tell(number);
    atomic_store(&stage, tracing);
    trace(number, information, context);
    replace(number);
}

// MARK: Prepared while all is well

struct name {
    struct name *next;
    int32_t count;
    char bytes[];
};

const void *crash_topic(const void *bytes, int32_t count) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct name *names;
    static int32_t known;
    pthread_mutex_lock(&lock);
    struct name *name = names;
    while (name && (name->count != count || memcmp(name->bytes, bytes, (size_t)count) != 0)) name = name->next;
    // So many that they are not those of a cluster: a name stays for ever, and this list is gone through.
    if (!name && known < CRASH_TOPIC_LIMIT && (name = malloc(sizeof *name + (size_t)count))) {
        known++;
        name->next = names;
        name->count = count;
        memcpy(name->bytes, bytes, (size_t)count);
        names = name;
    }
    pthread_mutex_unlock(&lock);
    return name ? name->bytes : NULL;
}

extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

static char **copied(const char *const *list, size_t count) {
    char **copy = calloc(count + 2, sizeof *copy);
    if (!copy) return NULL;
    for (size_t index = 0; index < count; index++) copy[index] = strdup(list[index]);
    return copy;
}

static size_t count_of(const char *const *list) {
    size_t count = 0;
    while (list[count]) count++;
    return count;
}

static struct note *noted(const char *variable) {
    size_t count = strlen(variable);
    struct note *new = calloc(1, sizeof *new + count + entry_size + 1);
    if (!new) return NULL;
    memcpy(new->text, variable, count);
    new->entry = new->text + count;
    return new;
}

void crash_remember(const char *variable) {
    if (!atomic_load(&is_contained)) return;
    struct note *new = noted(variable);
    // The one before may be in the hands of a thread that dies.
    if (new) atomic_store(&note, new);
}

int crash_contain(const char *const *arguments, const char *variable, const char *prefix) {
    if (__asan_init || __tsan_init) return 0;
    size_t name_count = strcspn(variable, "=") + 1, entries = 0;
    struct note *first = noted(variable);
    prepared.arguments = copied(arguments, count_of(arguments));
    prepared.environment = copied((const char *const *)environ, count_of((const char *const *)environ));
    prepared.prefix = strdup(prefix);
    if (!first || !prepared.arguments || !prepared.environment || !prepared.prefix) return 0;
    atomic_store(&note, first);
    for (char **word = prepared.environment; *word; word++)
        if (strncmp(*word, variable, name_count) != 0) prepared.environment[entries++] = *word;
    prepared.place = &prepared.environment[entries];
    prepared.environment[entries++] = first->text;
    prepared.environment[entries] = NULL;

    pthread_sigmask(SIG_SETMASK, NULL, &prepared.mask);
    // Until the next one takes them: by default they would end it.
    sigaddset(&prepared.mask, SIGTERM);
    sigaddset(&prepared.mask, SIGINT);
    sigaddset(&prepared.mask, SIGHUP);
    for (int index = 0; index < death_count; index++) sigdelset(&prepared.mask, deaths[index]);
    // backtrace(3): its first call loads a library, which a handler must not.
    void *frame[1];
    backtrace(frame, 1);

    atomic_store(&is_contained, 1);
    crash_stack_begin();
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    // Swift's own backtrace shows registers and what they point to: only for who asked for it.
    int is_asked_for = getenv("SWIFT_BACKTRACE") != NULL;
    for (int index = 0; index < death_count; index++)
        sigaction(deaths[index], &action, is_asked_for ? &prepared.before[index] : NULL);
    return 1;
}

void *crash_stack_begin(void) {
    if (!atomic_load(&is_contained)) return NULL;
    void *memory = malloc(stack_size);
    stack_t stack = {.ss_sp = memory, .ss_size = stack_size};
    if (memory && sigaltstack(&stack, NULL) == 0) return memory;
    free(memory);
    return NULL;
}

void crash_stack_end(void *memory) {
    if (!memory) return;
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    free(memory);
}

void crash_stopping(int signal) { atomic_store(&stopping, signal); }

static _Thread_local void *library_stack;

void crash_thread_begin(void) {
    if (!atomic_load(&is_contained)) return;
    library_stack = crash_stack_begin();
    sigset_t set;
    sigemptyset(&set);
    for (int index = 0; index < death_count; index++) sigaddset(&set, deaths[index]);
    // One that is blocked when a thread provokes it ends the process without a handler.
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void crash_thread_end(void) {
    crash_stack_end(library_stack);
    library_stack = NULL;
}
