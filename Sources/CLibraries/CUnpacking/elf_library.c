// Where the calls of a library lead, and how they are led elsewhere.
#define _GNU_SOURCE
#include "CUnpacking.h"
#include "elf_library.h"
#include "parts.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int find_mapping(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    elf_library *found = data;
    uintptr_t start = UINTPTR_MAX, end = 0;
    const ElfW(Dyn) *dynamic = NULL;
    uintptr_t sealed_start = 0, sealed_end = 0;
    for (int index = 0; index < info->dlpi_phnum; index++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[index];
        uintptr_t from = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)from;
        if (part->p_type == PT_GNU_RELRO) {
            sealed_start = from;
            sealed_end = from + part->p_memsz;
        }
        if (part->p_type != PT_LOAD) continue;
        if (from < start) start = from;
        if (from + part->p_memsz > end) end = from + part->p_memsz;
    }
    if (found->function < start || found->function >= end) return 0;
    found->start = start;
    found->end = end;
    found->base = info->dlpi_addr;
    found->dynamic = dynamic;
    found->sealed_start = sealed_start;
    found->sealed_end = sealed_end;
    return 1;
}

bool find_library(elf_library *found) { return dl_iterate_phdr(find_mapping, found) != 0; }

/// What the dynamic linker keeps of a library (elf(5)); glibc has made the addresses absolute.
static uintptr_t entry(const elf_library *library, ElfW(Sxword) tag) {
    for (const ElfW(Dyn) *one = library->dynamic; one && one->d_tag != DT_NULL; one++) {
        if (one->d_tag == tag) return one->d_un.d_ptr;
    }
    return 0;
}

/// Where the library keeps the address of a function, which one of these relocations made.
static uintptr_t *slot_of(const elf_library *library, const ElfW(Rela) *relocations, size_t bytes, const char *name) {
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)entry(library, DT_SYMTAB);
    const char *names = (const char *)entry(library, DT_STRTAB);
    if (!relocations || !symbols || !names) return NULL;
    for (size_t index = 0; index < bytes / sizeof(ElfW(Rela)); index++) {
        size_t symbol = ELF64_R_SYM(relocations[index].r_info);
        if (symbol == 0 || strcmp(names + symbols[symbol].st_name, name) != 0) continue;
        return (uintptr_t *)(library->base + relocations[index].r_offset);
    }
    return NULL;
}

/// Whether one of these relocations is of the name, and leads to ours: now, or when it is first called.
static bool leads_to(const elf_library *library, const ElfW(Rela) *relocations, size_t bytes, const char *name, void *ours) {
    const uintptr_t *slot = slot_of(library, relocations, bytes, name);
    if (!slot) return false;
    if (*slot == (uintptr_t)ours) return true;
    // Not bound yet: it leads to the library's own stub (lazy binding), and the first of that name is taken.
    return *slot >= library->start && *slot < library->end && dlsym(RTLD_DEFAULT, name) == ours;
}

/// Whether the library's calls of this name come here. Those of a library that has the function built in go by no name, and
/// whether another library has it, too, says nothing of them.
static bool calls(const elf_library *library, const char *name, void *ours) {
    if (entry(library, DT_PLTREL) == DT_RELA
        && leads_to(
            library, (const ElfW(Rela) *)entry(library, DT_JMPREL), entry(library, DT_PLTRELSZ), name, ours)) {
        return true;
    }
    return leads_to(library, (const ElfW(Rela) *)entry(library, DT_RELA), entry(library, DT_RELASZ), name, ours);
}

bool unpacking_is_reached(const void *caller) {
    elf_library found = {.function = (uintptr_t)caller};
    if (!find_library(&found)) return false;
    return calls(&found, "ZSTD_decompress", ZSTD_decompress)
        && calls(&found, "ZSTD_getFrameContentSize", ZSTD_getFrameContentSize)
        && calls(&found, "LZ4F_createDecompressionContext", LZ4F_createDecompressionContext)
        && calls(&found, "LZ4F_getFrameInfo", LZ4F_getFrameInfo) && calls(&found, "LZ4F_decompress", LZ4F_decompress)
        && calls(&found, "inflate", inflate);
}

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

/// Writes to a place that may be sealed.
static bool write_slot(const elf_library *library, uintptr_t *slot, uintptr_t value) {
    uintptr_t page = (uintptr_t)slot & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    // A slot does not cross pages: it is aligned.
    if (mprotect((void *)page, sizeof(uintptr_t), PROT_READ | PROT_WRITE) != 0) return false;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    bool is_sealed = (uintptr_t)slot >= library->sealed_start && (uintptr_t)slot < library->sealed_end;
    if (is_sealed) mprotect((void *)page, sizeof(uintptr_t), PROT_READ);
    return true;
}

bool unpacking_redirect(const void *caller, const char *name, void *ours, _Atomic(void *) *real) {
    elf_library found = {.function = (uintptr_t)caller};
    if (!find_library(&found) || entry(&found, DT_PLTREL) != DT_RELA) return false;
    uintptr_t *slot = slot_of(&found, (const ElfW(Rela) *)entry(&found, DT_JMPREL), entry(&found, DT_PLTRELSZ), name);
    if (!slot) slot = slot_of(&found, (const ElfW(Rela) *)entry(&found, DT_RELA), entry(&found, DT_RELASZ), name);
    if (!slot) return false;
    pthread_mutex_lock(&slots_lock);
    bool is_ours = *slot == (uintptr_t)ours;
    if (!is_ours) {
        // Not bound yet: it leads to the library's own stub (lazy binding).
        bool is_stub = *slot >= found.start && *slot < found.end;
        void *before = is_stub ? dlsym(RTLD_DEFAULT, name) : (void *)*slot;
        void *known = atomic_load(real);
        if (before && (!known || known == before)) {
            atomic_store(real, before);
            is_ours = write_slot(&found, slot, (uintptr_t)ours);
        }
    }
    pthread_mutex_unlock(&slots_lock);
    return is_ours;
}
