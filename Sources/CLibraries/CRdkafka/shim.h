// What Swift imports of this library; macros and variadic functions get a static inline function here.
#pragma once
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
