#define _GNU_SOURCE
#include "CLinux.h"
#include <unistd.h>

char *const *linux_environment(void) { return environ; }
