/* What R3's own kernels do: comparing (r3-replay/src/device/cuda/compare.ptx) and fingerprints
 * (r3-intercept/src/fingerprint/fingerprint.cu). Written from what those files say they do, in
 * another way than they do it. */
#define _GNU_SOURCE
#include <string.h>

#include "kernels.h"

/* One block for each chunk: 1 if it differs from the other buffer, or from zeros. */
void compare_chunks(const struct launch *launch) {
    const unsigned char *actual = ARGUMENT(launch, const unsigned char *, 0);
    const unsigned char *expected = ARGUMENT(launch, const unsigned char *, 1);
    uint64_t length = ARGUMENT(launch, uint64_t, 2), chunk = ARGUMENT(launch, uint64_t, 3);
    unsigned char *flags = ARGUMENT(launch, unsigned char *, 4);
    for (uint64_t block = 0; block < launch->grid[0]; block++) {
        uint64_t from = block * chunk, to = from + chunk < length ? from + chunk : length;
        flags[block] = 0;
        for (uint64_t i = from; i < to; i++)
            if (actual[i] != (expected ? expected[i] : 0)) flags[block] = 1;
    }
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
    return x ^ x >> 33;
}

struct span { uint64_t start, bytes, first, count; };
struct bounds { uint64_t start, end; };

/* One block for each 64 KiB: two sums over its words, and a mark for each range that a word points
 * into. */
void fingerprint(const struct launch *launch) {
    enum { CHUNK = 65536 };
    const unsigned char *base = ARGUMENT(launch, const unsigned char *, 0);
    uint64_t length = ARGUMENT(launch, uint64_t, 1), *out = ARGUMENT(launch, uint64_t *, 2);
    const struct span *spans = ARGUMENT(launch, const struct span *, 3);
    uint32_t span_count = ARGUMENT(launch, uint32_t, 4);
    const struct bounds *ranges = ARGUMENT(launch, const struct bounds *, 5);
    unsigned char *hits = ARGUMENT(launch, unsigned char *, 6);
    if (!readable_memory((uintptr_t)base, length, launch->context->device)) {
        launch->context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
        return;
    }
    for (uint64_t block = 0; block < launch->grid[0]; block++) {
        uint64_t from = block * CHUNK, to = from + CHUNK < length ? from + CHUNK : length;
        uint64_t sum = 0, weighted = 0;
        for (uint64_t at = from, index = 0; at < to; at += 8, index++) {
            uint64_t word = 0;
            memcpy(&word, base + at, to - at < 8 ? to - at : 8);
            uint64_t mixed = mix(word + (index + 1) * 0x9e3779b97f4a7c15);
            sum += mixed;
            weighted += mixed * (2 * index + 1);
            if (to - at < 8) continue; /* Not a whole word: no pointer. */
            for (uint32_t s = 0; s < span_count; s++)
                for (uint64_t r = spans[s].first; r < spans[s].first + spans[s].count; r++)
                    if (word >= ranges[r].start && word < ranges[r].end) hits[r] = 1;
        }
        out[2 * block] = sum;
        out[2 * block + 1] = weighted;
    }
    /* Another stream of the program writes just after the first look at memory. */
    static bool raced;
    if (launch->race && !raced) memset((void *)base, 0xbb, length < CHUNK ? length : CHUNK);
    raced = true;
}
