/* A fat binary in memory with one uncompressed PTX entry, as __cudaRegisterFatBinary is given one. */
#ifndef FATBIN_H
#define FATBIN_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct fatbin_wrapper { uint32_t magic, version; const void *data; void *unused; };

static inline const void *fatbin_wrapper(const char *ptx) {
    enum { CONTAINER = 16, ENTRY = 64 };
    size_t text = strlen(ptx) + 1, padded = (text + 7) / 8 * 8;
    unsigned char *data = calloc(1, CONTAINER + ENTRY + padded);
    uint32_t magic = 0xBA55ED50, header = ENTRY, arch = 75;
    uint16_t version = 1, container = CONTAINER, kind = 1, entry_version = 0x0101, minor = 0, major = 9;
    uint64_t follows = ENTRY + padded, payload = padded, flags = 0x11;
    memcpy(data, &magic, 4), memcpy(data + 4, &version, 2), memcpy(data + 6, &container, 2), memcpy(data + 8, &follows, 8);
    unsigned char *entry = data + CONTAINER;
    memcpy(entry, &kind, 2), memcpy(entry + 2, &entry_version, 2), memcpy(entry + 4, &header, 4), memcpy(entry + 8, &payload, 8);
    memcpy(entry + 24, &minor, 2), memcpy(entry + 26, &major, 2), memcpy(entry + 28, &arch, 4), memcpy(entry + 40, &flags, 8);
    memcpy(entry + ENTRY, ptx, text);
    struct fatbin_wrapper *wrapper = calloc(1, sizeof *wrapper);
    wrapper->magic = 0x466243B1, wrapper->version = 1, wrapper->data = data;
    return wrapper;
}
#endif
