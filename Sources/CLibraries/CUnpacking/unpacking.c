#define _GNU_SOURCE
#include "CUnpacking.h"
#include "parts.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// MARK: Limits

/// A library whose calls are limited: where it is mapped, and how.
typedef struct {
    _Atomic uintptr_t start;
    /// 0: there is none.
    _Atomic size_t size;
    _Atomic size_t batch_bytes;
    _Atomic size_t heap_bytes;
} caller_limits;

static caller_limits libraries[UNPACKING_CALLERS];
static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t too_large_count;
static _Atomic uint64_t put_off_count;
static _Atomic uint64_t granted_count;

/// The limits of whoever calls; NULL: there are none.
static const caller_limits *limits_of(const void *caller) {
    for (int index = 0; index < UNPACKING_CALLERS; index++) {
        uintptr_t start = atomic_load_explicit(&libraries[index].start, memory_order_relaxed);
        if ((uintptr_t)caller - start < atomic_load_explicit(&libraries[index].size, memory_order_acquire)) {
            return &libraries[index];
        }
    }
    return NULL;
}

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
    if (!dl_iterate_phdr(find_mapping, &found)) return false;
    return calls(&found, "ZSTD_decompress", ZSTD_decompress)
        && calls(&found, "ZSTD_getFrameContentSize", ZSTD_getFrameContentSize)
        && calls(&found, "LZ4F_createDecompressionContext", LZ4F_createDecompressionContext)
        && calls(&found, "LZ4F_getFrameInfo", LZ4F_getFrameInfo) && calls(&found, "LZ4F_decompress", LZ4F_decompress)
        && calls(&found, "inflate", inflate);
}

bool unpacking_limit(size_t batch_bytes, size_t heap_bytes, const void *caller) {
    elf_library found = {.function = (uintptr_t)caller};
    if (!dl_iterate_phdr(find_mapping, &found)) return false;
    pthread_mutex_lock(&libraries_lock);
    int place = 0;
    while (place < UNPACKING_CALLERS && libraries[place].size && libraries[place].start != found.start) place++;
    if (place < UNPACKING_CALLERS) {
        atomic_store(&libraries[place].batch_bytes, batch_bytes);
        atomic_store(&libraries[place].heap_bytes, heap_bytes);
        atomic_store(&libraries[place].start, found.start);
        atomic_store(&libraries[place].size, found.end - found.start);
    }
    pthread_mutex_unlock(&libraries_lock);
    return place < UNPACKING_CALLERS && unpacking_is_reached(caller);
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
    if (!dl_iterate_phdr(find_mapping, &found) || entry(&found, DT_PLTREL) != DT_RELA) return false;
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

void unpacking_tune_malloc(void) {
    // Above what a fetch takes, whose buffer comes and goes all the time.
    mallopt(M_MMAP_THRESHOLD, 2 << 20);
    // As glibc has it when it raises the threshold itself.
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

uint64_t unpacking_too_large_count(void) { return atomic_load(&too_large_count); }
uint64_t unpacking_put_off_count(void) { return atomic_load(&put_off_count); }
uint64_t unpacking_granted_count(void) { return atomic_load(&granted_count); }

// MARK: Batches

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// Whether the page of this address can be read. The kernel looks at the set of signals before it refuses what to do with it.
static bool is_readable(uintptr_t address) {
    return syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)7, NULL, 8) == 0 || errno != EFAULT;
}

/// A batch that is being unpacked.
typedef struct {
    /// Where its records are.
    const void *records;
    unpacking_batch header;
    bool has_header;
    /// The checksum that its header gives: together with the rest, which batch it is.
    uint32_t crc;
    /// For its records, besides their bytes.
    size_t overhead;
    /// What it may unpack to.
    size_t allowed;
} batch_work;

/// Reads the header before a batch's records, which librdkafka hands to the decompressors where they came from the network:
/// a response is one buffer, and what a broker says before the first batch of it has more than `header_size` bytes. A message
/// of an older format may come from the beginning of another buffer, though, with nothing before it. False: there is none.
static bool read_header(const uint8_t *records, size_t size, int codec, batch_work *work) {
    const uint8_t *header = records - header_size;
    // A page has at least 4096 bytes.
    if (((uintptr_t)header ^ (uintptr_t)records) >> 12 && !is_readable((uintptr_t)header)) return false;
    uint16_t attributes = (uint16_t)big_endian(header + 21, 2);
    int64_t base = (int64_t)big_endian(header, 8);
    int32_t last_delta = (int32_t)big_endian(header + 23, 4);
    if (header[16] != 2 || big_endian(header + 8, 4) != size + header_size - 12 || (attributes & 7) != codec) return false;
    if (base < 0 || last_delta < 0 || base > INT64_MAX - last_delta) return false;
    work->header.base_offset = base;
    work->header.last_offset = base + last_delta;
    work->header.timestamp_ms = (int64_t)big_endian(header + 27, 8);
    work->header.records = (int32_t)big_endian(header + 57, 4);
    work->header.size = size;
    work->crc = (uint32_t)big_endian(header + 17, 4);
    return true;
}

static batch_work begin(const caller_limits *limits, const uint8_t *records, size_t size, int codec) {
    batch_work work = {.records = records};
    work.has_header = read_header(records, size, codec, &work);
    if (work.has_header && work.header.records > 0) {
        work.overhead = (size_t)work.header.records * UNPACKING_RECORD_BYTES;
    }
    size_t limit = atomic_load_explicit(&limits->batch_bytes, memory_order_relaxed);
    work.allowed = limit > work.overhead ? limit - work.overhead : 0;
    return work;
}

typedef enum { damaged, too_large, put_off } batch_outcome;

/// How it went with a batch, the last time.
typedef struct {
    unpacking_batch batch;
    uint32_t crc;
    batch_outcome outcome;
    int64_t at_ns;
} batch_failure;

static pthread_mutex_t failures_lock = PTHREAD_MUTEX_INITIALIZER;
enum { failure_limit = 256 };
static batch_failure failures[failure_limit];
static size_t failure_count;

static bool is_of(const batch_failure *failure, const batch_work *work) {
    return failure->batch.base_offset == work->header.base_offset && failure->batch.size == work->header.size
        && failure->batch.last_offset == work->header.last_offset && failure->crc == work->crc;
}

static void remember(const batch_work *work, batch_outcome outcome) {
    if (!work->has_header) return;
    pthread_mutex_lock(&failures_lock);
    size_t known = failure_count < failure_limit ? failure_count : failure_limit;
    size_t place = 0;
    while (place < known && !is_of(&failures[place], work)) place++;
    if (place == known) place = failure_count++ % failure_limit;
    failures[place] = (batch_failure){work->header, work->crc, outcome, now_ns()};
    failures[place].batch.is_too_large = outcome == too_large;
    pthread_mutex_unlock(&failures_lock);
}

static void fail(const batch_work *work, batch_outcome outcome) {
    if (outcome == too_large) atomic_fetch_add(&too_large_count, 1);
    if (outcome == put_off) atomic_fetch_add(&put_off_count, 1);
    remember(work, outcome);
}

/// It did not fail after all.
static void forget(const batch_work *work) {
    if (!work->has_header) return;
    pthread_mutex_lock(&failures_lock);
    for (size_t place = 0; place < failure_limit; place++) {
        // What librdkafka says of one that was put off may not be read yet.
        if (is_of(&failures[place], work) && failures[place].outcome != put_off) failures[place].batch.size = 0;
    }
    pthread_mutex_unlock(&failures_lock);
}

size_t unpacking_failures(
    int64_t base_offset, size_t size, int64_t age_ns, unpacking_batch *found, size_t limit, bool *is_put_off) {
    size_t count = 0;
    *is_put_off = false;
    int64_t now = now_ns();
    pthread_mutex_lock(&failures_lock);
    size_t known = failure_count < failure_limit ? failure_count : failure_limit;
    for (size_t place = 0; place < known; place++) {
        const batch_failure *failure = &failures[place];
        if (failure->batch.base_offset != base_offset || failure->batch.size != size) continue;
        if (now - failure->at_ns > age_ns) continue;
        if (failure->outcome == put_off) *is_put_off = true;
        else if (count < limit) found[count++] = failure->batch;
    }
    pthread_mutex_unlock(&failures_lock);
    return count;
}

// MARK: Records

/// A signed number of at most `bytes` bytes, as Kafka's records have it (zigzag, seven bits a byte); moves `*at` behind it. False:
/// there is none, or it is longer than such a number may be, which Java and librdkafka read as different numbers.
static bool read_number(const uint8_t **at, const uint8_t *end, int bytes, int64_t *number) {
    uint64_t bits = 0;
    for (int index = 0; index < bytes; index++) {
        if (*at == end) return false;
        uint8_t byte = *(*at)++;
        int shift = 7 * index;
        // The last byte has what is left of 32 or 64 bits.
        if (index == bytes - 1 && byte >> (bytes == 5 ? 4 : 1)) return false;
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            *number = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
            return true;
        }
    }
    return false;
}

/// A length of 32 bits and so many bytes; -1, where there may be nothing: none.
static bool skip_bytes(const uint8_t **at, const uint8_t *end, bool may_be_missing) {
    int64_t length;
    if (!read_number(at, end, 5, &length)) return false;
    if (length == -1 && may_be_missing) return true;
    if (length < 0 || length > end - *at) return false;
    *at += length;
    return true;
}

/// Whether these are the records that the batch's header tells of, whole, one behind the other, their offsets ascending: of
/// anything else librdkafka makes other records than Java, stops without a word, or ends the process
/// (rdkafka_msgset_reader.c). A broker does not look at all of it.
static bool are_records(const batch_work *work, const uint8_t *at, size_t size) {
    const uint8_t *end = at + size;
    int64_t before = -1;
    int64_t last = work->header.last_offset - work->header.base_offset;
    int32_t count = 0;
    for (; at < end; count++) {
        int64_t length, number;
        if (!read_number(&at, end, 5, &length) || length < 1 || length > end - at) return false;
        const uint8_t *record_end = at + length;
        at++; // attributes
        if (!read_number(&at, record_end, 10, &number)) return false;
        if (!read_number(&at, record_end, 5, &number) || number <= before || number > last) return false;
        before = number;
        if (!skip_bytes(&at, record_end, true) || !skip_bytes(&at, record_end, true)) return false;
        int64_t headers;
        if (!read_number(&at, record_end, 5, &headers) || headers < 0) return false;
        // librdkafka reads them when they are asked for; those that it cannot read are the record's trouble alone.
        at = record_end;
    }
    return count == work->header.records;
}

/// Whether what a batch was unpacked to is what its header says; of those whose header is not known nothing is.
static bool is_whole(const batch_work *work, const void *bytes, size_t size) {
    if (!work->has_header || are_records(work, bytes, size)) return true;
    fail(work, damaged);
    return false;
}

// MARK: Batches that librdkafka unpacks alone

/// The beginning of the records of a batch that is not to be read: a byte that no gzip begins with, and one of these bits.
enum { spoiled_as_too_large = 1, spoiled_as_written = 2, spoiled_size = 2 };

bool is_intact(const uint8_t *batch, size_t size) {
    return unpacking_crc32c(batch + attributes_at, size - attributes_at) == big_endian(batch + crc_at, 4);
}

bool is_intact_message(const uint8_t *message, size_t size) {
    return crc32_ieee(message + magic_at, size - magic_at) == big_endian(message + length_behind, 4);
}

static void set_checksum(uint8_t *batch, size_t size) {
    set_big_endian(batch + crc_at, 4, unpacking_crc32c(batch + attributes_at, size - attributes_at));
}

/// Makes an intact batch one of gzip that cannot be unpacked: librdkafka hands up what is before it, says its offset, and asks
/// for it again. It is known as of now, since that librdkafka may have its decompressors built in.
static void spoil(batch_work *work, uint8_t *batch, size_t size, batch_outcome outcome) {
    work->header.is_as_written = true;
    batch[attributes_at + 1] = (batch[attributes_at + 1] & ~codec_mask) | gzip_codec;
    if (size >= header_size + spoiled_size) {
        batch[header_size] = 0;
        batch[header_size + 1] = (outcome == too_large ? spoiled_as_too_large : 0) | spoiled_as_written;
    }
    set_checksum(batch, size);
    work->crc = (uint32_t)big_endian(batch + crc_at, 4);
    remember(work, outcome);
}

/// What its records begin with then: a size of more than 32 bits, or of which the end is missing.
enum { damaged_size = 5 };

void make_damaged(uint8_t *batch, size_t size, int64_t base_offset) {
    set_big_endian(batch, 8, (uint64_t)base_offset);
    set_big_endian(batch + length_at, 4, size - length_behind);
    batch[magic_at] = 2;
    set_big_endian(batch + attributes_at, 2, snappy_codec);
    // librdkafka passes over what ends below the offset that it asked for.
    set_big_endian(batch + last_delta_at, 4, INT32_MAX);
    memset(batch + header_size, 0xFF, least(size - header_size, damaged_size));
    set_checksum(batch, size);
}

bool is_made_damaged(const uint8_t *batch, size_t size) {
    size_t unpacked;
    return big_endian(batch + attributes_at, 2) == snappy_codec && big_endian(batch + last_delta_at, 4) == INT32_MAX
        && !snappy_size(batch + header_size, size - header_size, &unpacked);
}

void unpacking_check_batch(uint8_t *batch, size_t size, const void *caller) {
    const caller_limits *limits = limits_of(caller);
    uint16_t attributes = (uint16_t)big_endian(batch + attributes_at, 2);
    int codec = attributes & codec_mask;
    if (!limits || (codec != no_codec && codec != snappy_codec) || attributes & control_bit) return;
    const uint8_t *records = batch + header_size;
    size_t records_size = size - header_size, unpacked = records_size;
    batch_work work = begin(limits, records, records_size, codec);
    if (!work.has_header) return;
    // Where it cannot be unpacked, librdkafka says so itself.
    if (codec == snappy_codec && !snappy_size(records, records_size, &unpacked)) return;
    if (unpacked > work.allowed) return spoil(&work, batch, size, too_large);
    uint8_t *buffer = NULL;
    if (codec == snappy_codec) {
        buffer = malloc(unpacked + 1);
        if (!buffer || !snappy_unpack(records, records_size, buffer, unpacked)) return free(buffer);
        records = buffer;
    }
    bool is_good = are_records(&work, records, unpacked);
    free(buffer);
    if (!is_good) spoil(&work, batch, size, damaged);
}

// MARK: Grants

/// A batch that may be unpacked whatever is allocated.
typedef struct {
    int64_t base_offset;
    size_t size;
    /// Monotonic; over already: there is none.
    int64_t until_ns;
} batch_grant;

static pthread_mutex_t grants_lock = PTHREAD_MUTEX_INITIALIZER;
static batch_grant grants[UNPACKING_GRANTS];
/// The batch of this thread that was let through last: it may ask several times until then.
static const int64_t let_through_ns = 2 * 1000000000ll;
static __thread struct {
    int64_t until_ns;
    const void *records;
    int64_t base_offset;
    size_t size;
    uint32_t crc;
} let_through;

void unpacking_grant(int64_t base_offset, size_t size, int64_t for_ns) {
    pthread_mutex_lock(&grants_lock);
    int place = 0;
    for (int index = 0; index < UNPACKING_GRANTS; index++) {
        if (grants[index].base_offset == base_offset && grants[index].size == size) {
            place = index;
            break;
        }
        if (grants[index].until_ns < grants[place].until_ns) place = index;
    }
    grants[place] = (batch_grant){base_offset, size, now_ns() + for_ns};
    pthread_mutex_unlock(&grants_lock);
}

/// Whether the batch is let through; that uses its grant up.
static bool takes_grant(const batch_work *work) {
    if (!work->has_header) return false;
    int64_t now = now_ns();
    if (now < let_through.until_ns && let_through.records == work->records
        && let_through.base_offset == work->header.base_offset && let_through.size == work->header.size
        && let_through.crc == work->crc) {
        return true;
    }
    bool is_granted = false;
    pthread_mutex_lock(&grants_lock);
    for (int index = 0; index < UNPACKING_GRANTS && !is_granted; index++) {
        batch_grant *grant = &grants[index];
        if (grant->base_offset != work->header.base_offset || grant->size != work->header.size) continue;
        is_granted = grant->until_ns > now;
        grant->until_ns = 0;
    }
    pthread_mutex_unlock(&grants_lock);
    if (!is_granted) return false;
    atomic_fetch_add(&granted_count, 1);
    let_through.until_ns = now + let_through_ns;
    let_through.records = work->records;
    let_through.base_offset = work->header.base_offset;
    let_through.size = work->header.size;
    let_through.crc = work->crc;
    return true;
}

// MARK: Memory

/// What is unpacked between two looks at the heap, which take some microseconds each.
static const size_t portion = 4 << 20;
/// What goes on being unpacked when there is no room, lest anything stand still: so much at a time.
static const size_t small = 256 << 10;
static const int64_t small_every_ns = 50 * 1000000;
/// A broker's thread waits so long for room, and all partitions of that broker with it. The longer wait is librdkafka's, which
/// asks for that partition again after `fetch.error.backoff.ms`, half a second.
enum { steps = 5 };
static const int64_t step_ns = 10 * 1000000;
static const int64_t no_wait_ns = 500 * 1000000;

static _Atomic size_t unpacked_since;
static _Atomic bool is_full;
/// Until then nobody waits again (monotonic).
static _Atomic int64_t full_until_ns;
static __thread int64_t small_next_ns;
/// The small one that went on last: it may ask again for more.
static __thread const void *small_batch;

/// Whether so much more fits into the heap.
static bool fits(const caller_limits *limits, size_t more) {
    size_t limit = atomic_load_explicit(&limits->heap_bytes, memory_order_relaxed);
    struct mallinfo2 heap = mallinfo2();
    bool is_fit = heap.uordblks + heap.hblkhd <= limit && more <= limit - heap.uordblks - heap.hblkhd;
    atomic_store(&is_full, !is_fit);
    return is_fit;
}

/// Whether a batch may take so much now: `buffer` is allocated already, `more` is not. Waits a little for room, and puts the
/// batch off where there is none. What can never be unpacked is to be known before.
static bool has_room(const caller_limits *limits, const batch_work *work, size_t buffer, size_t more) {
    size_t weight = buffer + more;
    if (!atomic_load_explicit(&is_full, memory_order_relaxed)) {
        size_t before = atomic_fetch_add_explicit(&unpacked_since, weight, memory_order_relaxed);
        if (before < portion && weight < portion - before) return true;
    }
    atomic_store_explicit(&unpacked_since, 0, memory_order_relaxed);
    if (fits(limits, more) || takes_grant(work)) return true;
    int64_t now = now_ns();
    if (weight <= small && (work->records == small_batch || now >= small_next_ns)) {
        small_batch = work->records;
        small_next_ns = now + small_every_ns;
        return true;
    }
    if (now >= atomic_load(&full_until_ns)) {
        for (int count = 0; count < steps; count++) {
            struct timespec step = {.tv_nsec = step_ns};
            nanosleep(&step, NULL);
            if (fits(limits, more)) return true;
        }
        atomic_store(&full_until_ns, now_ns() + no_wait_ns);
    }
    fail(work, put_off);
    return false;
}

// MARK: The functions

/// The next library's function of this name, looked for once.
#define REAL(type, name)                                                                                              \
    static _Atomic(void *) known_##name;                                                                              \
    static type real_##name(void) {                                                                                   \
        void *function = atomic_load_explicit(&known_##name, memory_order_relaxed);                                   \
        if (!function) {                                                                                              \
            function = dlsym(RTLD_NEXT, #name);                                                                       \
            atomic_store_explicit(&known_##name, function, memory_order_relaxed);                                     \
        }                                                                                                             \
        return (type)function;                                                                                        \
    }

typedef size_t (*zstd_decompress)(void *, size_t, const void *, size_t);
typedef unsigned long long (*zstd_content_size)(const void *, size_t);
REAL(zstd_decompress, ZSTD_decompress)
REAL(zstd_content_size, ZSTD_getFrameContentSize)

/// zstd_errors.h, lz4frame.h, zlib.h.
enum { zstd_corrupted = 20, zstd_memory = 64, zstd_too_small = 70, zstd_last_error = 120, lz4_memory = 9, lz4_last_error = 64 };
enum { zlib_buffer = -5, zlib_memory = -4, zlib_data = -3, zlib_end = 1, zlib_needs_dictionary = 2 };
static const unsigned long long zstd_unknown_size = -1ull, zstd_no_size = -2ull;
/// Where librdkafka goes no further: it makes its buffer larger until `receive.message.max.bytes`, which is more than this.
static const size_t zstd_least_last = 1 << 20;

/// librdkafka asks this first, and goes no further with a batch that says to be larger than `receive.message.max.bytes`.
__attribute__((noinline)) unsigned long long ZSTD_getFrameContentSize(const void *from, size_t size) {
    if (!real_ZSTD_getFrameContentSize()) return zstd_no_size;
    unsigned long long content = real_ZSTD_getFrameContentSize()(from, size);
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits) return content;
    if (content == zstd_unknown_size || content < zstd_least_last) return content;
    batch_work work = begin(limits, from, size, zstd_codec);
    if (content == zstd_no_size) fail(&work, damaged);
    // It is unpacked next, since `receive.message.max.bytes` is more.
    if (content == zstd_no_size || content <= work.allowed) return content;
    fail(&work, too_large);
    return zstd_no_size;
}

__attribute__((noinline)) size_t ZSTD_decompress(void *to, size_t capacity, const void *from, size_t size) {
    if (!real_ZSTD_decompress()) return (size_t)-zstd_memory;
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits) return real_ZSTD_decompress()(to, capacity, from, size);
    batch_work work = begin(limits, from, size, zstd_codec);
    if (work.allowed == 0) {
        fail(&work, too_large);
        return (size_t)-zstd_memory;
    }
    if (capacity >= zstd_least_last) forget(&work);
    size_t most = least(capacity, work.allowed);
    if (!has_room(limits, &work, most, work.overhead)) return (size_t)-zstd_memory;
    size_t result = real_ZSTD_decompress()(to, most, from, size);
    if (result < (size_t)-zstd_last_error) return is_whole(&work, to, result) ? result : (size_t)-zstd_corrupted;
    // No memory for zstd itself says nothing of the batch.
    if (result == (size_t)-zstd_memory) return result;
    if (result != (size_t)-zstd_too_small) {
        fail(&work, damaged);
    } else if (most < capacity) {
        fail(&work, too_large);
        return (size_t)-zstd_memory;
    } else if (capacity >= zstd_least_last) {
        fail(&work, damaged);
    }
    return result;
}

/// The frame that this thread unpacks; librdkafka unpacks one after the other.
static __thread struct {
    batch_work work;
    size_t done;
    bool has_begun;
    /// For all of it.
    bool has_room;
} frame;

/// The beginning of LZ4F_frameInfo_t.
typedef struct {
    uint32_t block_size, block_mode, has_checksum, type;
    /// 0: the frame does not say.
    uint64_t content_size;
} lz4_info;

typedef size_t (*lz4_create)(void **, unsigned);
typedef size_t (*lz4_get_info)(void *, void *, const void *, size_t *);
typedef size_t (*lz4_decompress)(void *, void *, size_t *, const void *, size_t *, const void *);
REAL(lz4_create, LZ4F_createDecompressionContext)
REAL(lz4_get_info, LZ4F_getFrameInfo)
REAL(lz4_decompress, LZ4F_decompress)

static size_t fail_frame(batch_outcome outcome) {
    fail(&frame.work, outcome);
    return (size_t)-lz4_memory;
}

/// No memory for lz4 itself says nothing of the batch.
static bool is_damage(size_t result) {
    return result > (size_t)-lz4_last_error && result != (size_t)-lz4_memory;
}

size_t LZ4F_createDecompressionContext(void **context, unsigned version) {
    frame.has_begun = false;
    if (!real_LZ4F_createDecompressionContext()) return (size_t)-lz4_memory;
    return real_LZ4F_createDecompressionContext()(context, version);
}

/// librdkafka asks this first, and takes what the frame says to be large at once, where that can be: it grows 255 times at most.
__attribute__((noinline)) size_t LZ4F_getFrameInfo(void *context, void *info, const void *from, size_t *from_size) {
    lz4_get_info real = real_LZ4F_getFrameInfo();
    if (!real) return (size_t)-lz4_memory;
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits || frame.has_begun) return real(context, info, from, from_size);
    size_t size = *from_size;
    frame.work = begin(limits, from, size, lz4_codec);
    frame.done = 0;
    frame.has_begun = true;
    frame.has_room = false;
    if (frame.work.allowed == 0) return fail_frame(too_large);
    size_t result = real(context, info, from, from_size);
    if (is_damage(result)) fail(&frame.work, damaged);
    if (result > (size_t)-lz4_last_error) return result;
    uint64_t content = ((const lz4_info *)info)->content_size;
    if (content == 0 || content / 255 > size) return result;
    if (content > frame.work.allowed) return fail_frame(too_large);
    frame.has_room = has_room(limits, &frame.work, 0, content + frame.work.overhead);
    return frame.has_room ? result : (size_t)-lz4_memory;
}

__attribute__((noinline)) size_t LZ4F_decompress(
    void *context, void *to, size_t *to_size, const void *from, size_t *from_size, const void *options) {
    lz4_decompress real = real_LZ4F_decompress();
    if (!real) return (size_t)-lz4_memory;
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits || !frame.has_begun) return real(context, to, to_size, from, from_size, options);
    size_t left = frame.work.allowed - frame.done;
    if (left == 0) return fail_frame(too_large);
    size_t more = frame.done == 0 ? frame.work.overhead : 0;
    if (!frame.has_room && !has_room(limits, &frame.work, least(*to_size, left), more)) return (size_t)-lz4_memory;
    if (*to_size > left) *to_size = left;
    size_t given = *from_size;
    size_t result = real(context, to, to_size, from, from_size, options);
    if (is_damage(result)) fail(&frame.work, damaged);
    if (result > (size_t)-lz4_last_error) return result;
    frame.done += *to_size;
    if (result > 0 && frame.done == frame.work.allowed) return fail_frame(too_large);
    // The frame ends. librdkafka has all of it in one buffer, in which this was the last.
    if (result == 0) {
        if (*from_size < given) return fail_frame(damaged);
        if (!is_whole(&frame.work, (const uint8_t *)to + *to_size - frame.done, frame.done)) return (size_t)-lz4_memory;
    }
    return result;
}

/// As `frame`, of gzip.
static __thread batch_work gzip;

typedef int (*zlib_inflate)(unpacking_stream *, int);
REAL(zlib_inflate, inflate)

__attribute__((noinline)) int inflate(unpacking_stream *stream, int flush) {
    zlib_inflate real = real_inflate();
    if (!real) return zlib_memory;
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits) return real(stream, flush);
    bool is_first = stream->total_in == 0;
    if (is_first) gzip = begin(limits, stream->next_in, stream->avail_in, gzip_codec);
    if (stream->total_out > gzip.allowed || gzip.allowed == 0) {
        fail(&gzip, too_large);
        return zlib_memory;
    }
    // `spoil` made it so.
    if (is_first && gzip.has_header && stream->avail_in >= spoiled_size && stream->next_in[0] == 0
        && is_intact(stream->next_in - header_size, header_size + stream->avail_in)) {
        gzip.header.is_as_written = stream->next_in[1] & spoiled_as_written;
        fail(&gzip, stream->next_in[1] & spoiled_as_too_large ? too_large : damaged);
        return zlib_data;
    }
    // The first of two passes only counts, in a small buffer: it decides whether there is a second.
    if (is_first && !has_room(limits, &gzip, stream->avail_out, gzip.overhead)) return zlib_memory;
    const uint8_t *to = stream->next_out;
    int result = real(stream, flush);
    // Java's unpacks all members of a file, librdkafka the first, and stops at an assertion where that is empty.
    if (result == zlib_end && stream->avail_in > 0) {
        fail(&gzip, damaged);
        return zlib_data;
    }
    // In the pass that is not for counting all comes at once.
    if (result == zlib_end && is_first && !is_whole(&gzip, to, stream->total_out)) return zlib_data;
    // All that there is was given, and there was room for more.
    bool is_cut = result != zlib_end && stream->avail_out > 0;
    bool is_failed = (result < 0 && result != zlib_buffer) || result == zlib_needs_dictionary || is_cut;
    // No memory for zlib itself says nothing of the batch.
    if (is_failed && result != zlib_memory) fail(&gzip, damaged);
    return is_cut && result != zlib_memory ? zlib_data : result;
}
