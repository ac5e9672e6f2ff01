// What Swift imports of this library; macros and variadic functions get a static inline function here.
#pragma once
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/// `MHD_start_daemon` on a listening socket, without a thread: whoever polls `mhd_epoll` calls `MHD_run`. Without a log of
/// its own; it owns `listen_fd` afterwards unless it returns NULL. A connection without any activity is closed after
/// `timeout_seconds`.
static inline struct MHD_Daemon *mhd_start(
    int listen_fd, MHD_AccessHandlerCallback access, MHD_RequestCompletedCallback completed,
    MHD_NotifyConnectionCallback connected, void *context, unsigned int connection_limit, unsigned int timeout_seconds)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, access, context,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listen_fd,
        MHD_OPTION_NOTIFY_COMPLETED, completed, context,
        MHD_OPTION_NOTIFY_CONNECTION, connected, context,
        MHD_OPTION_CONNECTION_LIMIT, connection_limit,
        MHD_OPTION_CONNECTION_TIMEOUT, timeout_seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(64 * 1024),
        MHD_OPTION_END);
}

/// The descriptor that is readable when `MHD_run` has something to do; -1: there is none.
static inline int mhd_epoll(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info == NULL ? -1 : info->epoll_fd;
}

/// In how many milliseconds `MHD_run` has something to do without anything being readable; -1: it has not.
static inline int64_t mhd_timeout(struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG milliseconds;
    if (MHD_get_timeout(daemon, &milliseconds) != MHD_YES) return -1;
    return milliseconds > INT32_MAX ? INT32_MAX : (int64_t)milliseconds;
}

/// Whether a connection was taken; else it is about to be closed.
static inline bool mhd_is_start(enum MHD_ConnectionNotificationCode code)
{
    return code == MHD_CONNECTION_NOTIFY_STARTED;
}

/// A connection's socket; -1: it has none any more.
static inline int mhd_socket(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL ? -1 : info->connect_fd;
}

/// Who is at the other end, without the port: 4 bytes of IPv4 or 16 of IPv6; how many, 0: it is not known.
static inline int mhd_client_address(struct MHD_Connection *connection, uint8_t address[16])
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info == NULL || info->client_addr == NULL) return 0;
    switch (info->client_addr->sa_family) {
    case AF_INET:
        memcpy(address, &((const struct sockaddr_in *)info->client_addr)->sin_addr, 4);
        return 4;
    case AF_INET6:
        memcpy(address, &((const struct sockaddr_in6 *)info->client_addr)->sin6_addr, 16);
        return 16;
    default:
        return 0;
    }
}

/// `MHD_SIZE_UNKNOWN`: the body ends when the reader says so (chunked).
static inline uint64_t mhd_size_unknown(void) { return MHD_SIZE_UNKNOWN; }

static inline ssize_t mhd_end_of_stream(void) { return MHD_CONTENT_READER_END_OF_STREAM; }

static inline ssize_t mhd_end_with_error(void) { return MHD_CONTENT_READER_END_WITH_ERROR; }
