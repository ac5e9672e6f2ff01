// The declarations of nghttp2 that Swift imports.
#pragma once
#include <nghttp2/nghttp2.h>
