// C11's threads as POSIX threads, which the thread sanitizer knows: librdkafka makes its own by thrd_create(3), whose
// threads call back into code that the sanitizer watches, and which then crashes. glibc's types are the same in both.

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <threads.h>

struct start { thrd_start_t body; void *argument; };

static void *run(void *given) {
    struct start start = *(struct start *)given;
    free(given);
    return (void *)(long)start.body(start.argument);
}

static int result(int code) { return code == 0 ? thrd_success : code == EBUSY ? thrd_busy : thrd_error; }

int thrd_create(thrd_t *thread, thrd_start_t body, void *argument) {
    struct start *start = malloc(sizeof *start);
    if (!start) return thrd_nomem;
    *start = (struct start){body, argument};
    return result(pthread_create((pthread_t *)thread, NULL, run, start));
}

int thrd_join(thrd_t thread, int *value) {
    void *ended = NULL;
    int code = pthread_join((pthread_t)thread, &ended);
    if (value) *value = (int)(long)ended;
    return result(code);
}

int thrd_detach(thrd_t thread) { return result(pthread_detach((pthread_t)thread)); }

int mtx_init(mtx_t *mutex, int type) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, type & mtx_recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    int code = pthread_mutex_init((pthread_mutex_t *)mutex, &kind);
    pthread_mutexattr_destroy(&kind);
    return result(code);
}
int mtx_lock(mtx_t *mutex) { return result(pthread_mutex_lock((pthread_mutex_t *)mutex)); }
int mtx_trylock(mtx_t *mutex) { return result(pthread_mutex_trylock((pthread_mutex_t *)mutex)); }
int mtx_unlock(mtx_t *mutex) { return result(pthread_mutex_unlock((pthread_mutex_t *)mutex)); }
void mtx_destroy(mtx_t *mutex) { pthread_mutex_destroy((pthread_mutex_t *)mutex); }

int cnd_init(cnd_t *condition) { return result(pthread_cond_init((pthread_cond_t *)condition, NULL)); }
int cnd_signal(cnd_t *condition) { return result(pthread_cond_signal((pthread_cond_t *)condition)); }
int cnd_broadcast(cnd_t *condition) { return result(pthread_cond_broadcast((pthread_cond_t *)condition)); }
int cnd_wait(cnd_t *condition, mtx_t *mutex) {
    return result(pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}
int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *time) {
    int code = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, time);
    return code == ETIMEDOUT ? thrd_timedout : result(code);
}
void cnd_destroy(cnd_t *condition) { pthread_cond_destroy((pthread_cond_t *)condition); }
