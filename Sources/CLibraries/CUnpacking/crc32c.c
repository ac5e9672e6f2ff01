#include "CUnpacking.h"
#include "parts.h"
#include <pthread.h>
#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

/// What eight bytes at once make of a checksum: `tables[n][byte]` is that of a byte with `n` zeros behind it.
typedef uint32_t tables[8][256];

static tables castagnoli;
/// That of zip, by which messages older than Kafka 0.11 are checked.
static tables ieee;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make(tables of, uint32_t polynomial) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        of[0][byte] = crc;
    }
    for (int zeros = 1; zeros < 8; zeros++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = of[zeros - 1][byte];
            of[zeros][byte] = crc >> 8 ^ of[0][crc & 0xFF];
        }
    }
}

static void make_all(void) {
    make(castagnoli, 0x82F63B78);
    make(ieee, 0xEDB88320);
}

/// The first byte is the lowest, as on all that Swift runs on.
static inline uint64_t little_endian(const uint8_t *bytes) {
    uint64_t number;
    memcpy(&number, bytes, sizeof(number));
    return number;
}

static uint32_t by_table(const tables of, const uint8_t *bytes, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (; size >= 8; bytes += 8, size -= 8) {
        uint64_t next = little_endian(bytes) ^ crc;
        crc = 0;
        for (int index = 0; index < 8; index++) crc ^= of[7 - index][next >> 8 * index & 0xFF];
    }
    for (; size > 0; bytes++, size--) crc = crc >> 8 ^ of[0][(crc ^ *bytes) & 0xFF];
    return ~crc;
}

uint32_t unpacking_crc32c_by_table(const uint8_t *bytes, size_t size) {
    pthread_once(&made, make_all);
    return by_table(castagnoli, bytes, size);
}

uint32_t crc32_ieee(const uint8_t *bytes, size_t size) {
    pthread_once(&made, make_all);
    return by_table(ieee, bytes, size);
}

// By the processor's own instruction, eight bytes at once; each waits for the one before.
#if defined(__x86_64__)

bool unpacking_has_crc32c(void) { return __builtin_cpu_supports("sse4.2"); }

__attribute__((target("sse4.2"))) static uint32_t by_instruction(const uint8_t *bytes, size_t size) {
    uint64_t crc = UINT32_MAX;
    for (; size >= 32; bytes += 32, size -= 32) {
        crc = __builtin_ia32_crc32di(crc, little_endian(bytes));
        crc = __builtin_ia32_crc32di(crc, little_endian(bytes + 8));
        crc = __builtin_ia32_crc32di(crc, little_endian(bytes + 16));
        crc = __builtin_ia32_crc32di(crc, little_endian(bytes + 24));
    }
    for (; size >= 8; bytes += 8, size -= 8) crc = __builtin_ia32_crc32di(crc, little_endian(bytes));
    for (; size > 0; bytes++, size--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *bytes);
    return ~(uint32_t)crc;
}

#elif defined(__aarch64__)

bool unpacking_has_crc32c(void) { return getauxval(AT_HWCAP) & HWCAP_CRC32; }

#if defined(__clang__)
#define CRC_TARGET __attribute__((target("crc")))
#define CRC_8 __builtin_arm_crc32cd
#define CRC_1 __builtin_arm_crc32cb
#else
#define CRC_TARGET __attribute__((target("+crc")))
#define CRC_8 __builtin_aarch64_crc32cx
#define CRC_1 __builtin_aarch64_crc32cb
#endif

CRC_TARGET static uint32_t by_instruction(const uint8_t *bytes, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (; size >= 32; bytes += 32, size -= 32) {
        crc = CRC_8(crc, little_endian(bytes));
        crc = CRC_8(crc, little_endian(bytes + 8));
        crc = CRC_8(crc, little_endian(bytes + 16));
        crc = CRC_8(crc, little_endian(bytes + 24));
    }
    for (; size >= 8; bytes += 8, size -= 8) crc = CRC_8(crc, little_endian(bytes));
    for (; size > 0; bytes++, size--) crc = CRC_1(crc, *bytes);
    return ~crc;
}

#else

bool unpacking_has_crc32c(void) { return false; }

static uint32_t by_instruction(const uint8_t *bytes, size_t size) { return unpacking_crc32c_by_table(bytes, size); }

#endif

uint32_t unpacking_crc32c(const uint8_t *bytes, size_t size) {
    return unpacking_has_crc32c() ? by_instruction(bytes, size) : unpacking_crc32c_by_table(bytes, size);
}
