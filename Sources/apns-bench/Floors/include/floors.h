// The baseline programs (floors) of the benchmark: two C functions, each of which does the minimum for one half of the
// worker's work. Both return the elapsed milliseconds. On an error they print a line to standard error and exit.
#pragma once
#include <stdint.h>

/// Posts `count` requests over TLS and HTTP/2 to nghttpd, and reads the answers.
///
/// `tokens` contains `devices` device tokens of 64 hex digits each, without separators. In each request,
/// the request's number replaces the nine-digit order numbers in `payload`.
int64_t send_floor(int port, const char *authority, int connections, int64_t count, const char *tokens, int devices,
                   const char *payload, const char *authorization, const char *topic);

/// Consumes `count` requests and produces their results. `properties` lists the producer's properties: each
/// name is followed by its value.
int64_t kafka_floor(const char *servers, const char *requests, const char *results, int partitions, int64_t count,
                    const char *const *properties, int property_count);
