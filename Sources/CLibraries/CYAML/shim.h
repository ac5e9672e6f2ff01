// The declarations that Swift imports. Macros and variadic functions have static inline wrappers here.
#pragma once
#include <yaml.h>
