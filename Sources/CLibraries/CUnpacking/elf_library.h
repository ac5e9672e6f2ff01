// The library that a function of the process is of, and its calls of others, as the dynamic linker keeps them.
#pragma once
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/// A function's library: what is sought, and what was found.
typedef struct {
    uintptr_t function;
    uintptr_t start;
    uintptr_t end;
    /// What its addresses are relative to.
    uintptr_t base;
    const ElfW(Dyn) *dynamic;
    /// What the dynamic linker made read-only when it was done.
    uintptr_t sealed_start;
    uintptr_t sealed_end;
} elf_library;

/// Finds the library of `found->function`; false: there is none.
bool find_library(elf_library *found);
