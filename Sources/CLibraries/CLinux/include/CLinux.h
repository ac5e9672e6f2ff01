// The system calls and C globals that Swift's Glibc module does not offer, or not safely.
#pragma once
#include <stdint.h>

/// `environ`, which Swift 6 refuses as a mutable global.
char *const *linux_environment(void);
