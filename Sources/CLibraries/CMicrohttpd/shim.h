// What Swift imports of this library; macros and variadic functions get a static inline function here.
#pragma once
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/// A daemon and the thread that serves it.
struct mhd_server {
    struct MHD_Daemon *daemon;
    /// Readable once the thread is to end.
    int stop_event;
    pthread_t thread;
};

/// Body of the server's thread.
static inline void *mhd_serve(void *context)
{
    struct mhd_server *server = context;
    int epoll = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    for (;;) {
        MHD_UNSIGNED_LONG_LONG left;
        int wait = MHD_get_timeout(server->daemon, &left) == MHD_YES ? (int)(left < 60000 ? left : 60000) : -1;
        struct pollfd ready[2] = {{epoll, POLLIN, 0}, {server->stop_event, POLLIN, 0}};
        poll(ready, 2, wait);
        if (ready[1].revents != 0) return NULL;
        MHD_run(server->daemon);
        // Without a free descriptor and without a connection, libmicrohttpd tries accept(2) again at once and for ever
        // ("Will try busy waiting", daemon.c).
        int spare = fcntl(server->stop_event, F_DUPFD_CLOEXEC, 0);
        if (spare < 0) poll(NULL, 0, 100);
        else close(spare);
    }
}

/// Serves on a listening socket, with a thread of its own and without a log. The server owns `listen_fd` afterwards
/// unless NULL is returned. It closes a connection that was silent for `timeout_seconds`, and accepts up to
/// `connection_limit` of them, of one address half as many.
static inline struct mhd_server *mhd_start(
    int listen_fd, MHD_AccessHandlerCallback access, MHD_RequestCompletedCallback completed, void *context,
    unsigned int connection_limit, unsigned int timeout_seconds)
{
    struct mhd_server *server = calloc(1, sizeof *server);
    if (server == NULL) return NULL;
    server->stop_event = eventfd(0, EFD_CLOEXEC);
    if (server->stop_event >= 0)
        server->daemon = MHD_start_daemon(
            MHD_USE_EPOLL, 0, NULL, NULL, access, context,
            MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listen_fd,
            MHD_OPTION_NOTIFY_COMPLETED, completed, context,
            MHD_OPTION_CONNECTION_LIMIT, connection_limit,
            MHD_OPTION_PER_IP_CONNECTION_LIMIT, connection_limit / 2,
            MHD_OPTION_CONNECTION_TIMEOUT, timeout_seconds,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(64 * 1024),
            MHD_OPTION_END);
    if (server->daemon != NULL && pthread_create(&server->thread, NULL, mhd_serve, server) == 0) return server;
    // The caller closes the socket.
    if (server->daemon != NULL) {
        MHD_quiesce_daemon(server->daemon);
        MHD_stop_daemon(server->daemon);
    }
    close(server->stop_event);
    free(server);
    return NULL;
}

/// Ends the thread, and closes the listening socket and all connections.
static inline void mhd_stop(struct mhd_server *server)
{
    eventfd_write(server->stop_event, 1);
    pthread_join(server->thread, NULL);
    MHD_stop_daemon(server->daemon);
    close(server->stop_event);
    free(server);
}

/// `MHD_SIZE_UNKNOWN`: the body ends when the reader says so (chunked).
static inline uint64_t mhd_size_unknown(void) { return MHD_SIZE_UNKNOWN; }

static inline ssize_t mhd_end_of_stream(void) { return MHD_CONTENT_READER_END_OF_STREAM; }

static inline ssize_t mhd_end_with_error(void) { return MHD_CONTENT_READER_END_WITH_ERROR; }
