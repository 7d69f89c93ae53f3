// Included by clang's header of intrinsics, which has the functions behind these.
#define R3_MATCH(type, bits, integer)                                                                            \
    static __inline__ __device__ unsigned int __match_any_sync(unsigned int mask, type value) {                  \
        return __match##bits##_any_sync(mask, __builtin_bit_cast(integer, value));                               \
    }                                                                                                            \
    static __inline__ __device__ unsigned int __match_all_sync(unsigned int mask, type value, int *all) {        \
        return __match##bits##_all_sync(mask, __builtin_bit_cast(integer, value), all);                          \
    }
R3_MATCH(int, 32, unsigned int)
R3_MATCH(unsigned int, 32, unsigned int)
R3_MATCH(float, 32, unsigned int)
R3_MATCH(long, 64, unsigned long long)
R3_MATCH(unsigned long, 64, unsigned long long)
R3_MATCH(long long, 64, unsigned long long)
R3_MATCH(unsigned long long, 64, unsigned long long)
R3_MATCH(double, 64, unsigned long long)
#undef R3_MATCH
static __inline__ __device__ void __nanosleep(unsigned int time) { __nvvm_nanosleep(time); }
