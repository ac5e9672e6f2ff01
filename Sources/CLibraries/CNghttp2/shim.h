// The declarations that Swift imports. Macros and variadic functions have static inline wrappers here.
#pragma once
#include <nghttp2/nghttp2.h>
