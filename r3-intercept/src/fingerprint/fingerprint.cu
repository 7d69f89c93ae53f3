// Reads device memory at the rate of device memory, so that a snapshot copies only what is new.
//
// fingerprint.ptx is made from this file by regenerate.sh. The host side is mod.rs; both must agree on
// the hash, which a test on recorded values checks.

typedef unsigned long long u64;
typedef unsigned int u32;

const u32 CHUNK = 65536;
const u32 THREADS = 256;

// A span of addresses that holds some allocations, so that most words need one comparison.
struct Span {
    u64 start;
    u64 len;
    u64 first; // index into ranges
    u64 count;
};

struct Range {
    u64 start;
    u64 end;
};

// A bijection of 64 bits (the finaliser of MurmurHash3).
__device__ inline u64 mix(u64 x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    x ^= x >> 33;
    return x;
}

__device__ inline void absorb(u64 word, u32 index, u64 &a, u64 &b) {
    u64 m = mix(word + (index + 1ull) * 0x9e3779b97f4a7c15ull);
    a += m;
    b += m * (2ull * index + 1);
}

__device__ inline void look(u64 word, const Span *spans, u32 span_count, const Range *ranges,
                            unsigned char *hits) {
    for (u32 s = 0; s < span_count; s++) {
        if (word - spans[s].start >= spans[s].len)
            continue;
        // The last range that starts at or below the word.
        u64 low = spans[s].first, high = low + spans[s].count;
        while (high - low > 1) {
            u64 middle = (low + high) / 2;
            if (ranges[middle].start <= word)
                low = middle;
            else
                high = middle;
        }
        if (word < ranges[low].end)
            hits[low] = 1;
    }
}

// One block for each chunk of `base .. base + len`, `base` aligned to 16 bytes. out: two words for
// each chunk. hits: one byte for each range, set when a word of the memory points into it.
extern "C" __global__ void r3_fingerprint(const unsigned char *base, u64 len, u64 *out,
                                          const Span *spans, u32 span_count, const Range *ranges,
                                          unsigned char *hits) {
    u64 begin = (u64)blockIdx.x * CHUNK;
    u32 bytes = len - begin < CHUNK ? (u32)(len - begin) : CHUNK;
    u32 words = bytes / 8;
    const u64 *memory = (const u64 *)(base + begin);
    u64 a = 0, b = 0;
    for (u32 pair = threadIdx.x; pair < words / 2; pair += THREADS) {
        ulonglong2 two = ((const ulonglong2 *)memory)[pair];
        absorb(two.x, 2 * pair, a, b);
        absorb(two.y, 2 * pair + 1, a, b);
        look(two.x, spans, span_count, ranges, hits);
        look(two.y, spans, span_count, ranges, hits);
    }
    if (threadIdx.x == 0) {
        if (words % 2) {
            absorb(memory[words - 1], words - 1, a, b);
            look(memory[words - 1], spans, span_count, ranges, hits);
        }
        u64 tail = 0;
        for (u32 i = words * 8; i < bytes; i++)
            tail |= (u64)base[begin + i] << (8 * (i % 8));
        if (bytes % 8)
            absorb(tail, words, a, b);
    }
    for (u32 lane = 16; lane; lane /= 2) {
        a += __shfl_down_sync(0xffffffff, a, lane);
        b += __shfl_down_sync(0xffffffff, b, lane);
    }
    __shared__ u64 sums[THREADS / 32][2];
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32][0] = a;
        sums[threadIdx.x / 32][1] = b;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (u32 warp = 1; warp < THREADS / 32; warp++) {
            a += sums[warp][0];
            b += sums[warp][1];
        }
        out[2 * (u64)blockIdx.x] = a;
        out[2 * (u64)blockIdx.x + 1] = b;
    }
}
