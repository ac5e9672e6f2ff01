// The declarations of libmicrohttpd that Swift imports, with static inline wrappers of macros and variadic functions.
#pragma once
#include <microhttpd.h>

/// Starts a daemon that does all its work in `MHD_run` and writes no log. The daemon owns the listening socket unless
/// the function returns NULL. It closes a connection after `timeout_seconds` without data, and accepts up to
/// `connection_limit` connections, at most half of them from one address.
static inline struct MHD_Daemon *mhd_start(
    int listen_fd, MHD_AccessHandlerCallback access, MHD_RequestCompletedCallback completed, void *context,
    unsigned int connection_limit, unsigned int timeout_seconds)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, access, context,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listen_fd,
        MHD_OPTION_NOTIFY_COMPLETED, completed, context,
        MHD_OPTION_CONNECTION_LIMIT, connection_limit,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, connection_limit / 2,
        MHD_OPTION_CONNECTION_TIMEOUT, timeout_seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(64 * 1024),
        MHD_OPTION_END);
}

/// Returns the epoll descriptor, which is readable when a socket of the daemon is ready.
static inline int mhd_epoll(struct MHD_Daemon *daemon)
{
    return MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

/// Returns the size to pass for a body of unknown length. libmicrohttpd sends such a body in chunks until the content
/// reader reports its end.
static inline uint64_t mhd_size_unknown(void) { return MHD_SIZE_UNKNOWN; }

static inline ssize_t mhd_end_of_stream(void) { return MHD_CONTENT_READER_END_OF_STREAM; }

static inline ssize_t mhd_end_with_error(void) { return MHD_CONTENT_READER_END_WITH_ERROR; }
