// Operations in bulk on a GPU's memory. `make.sh` makes `kernels.ptx` of this.
//
// All kernels work on a table: a list of pieces of memory of any length, cut into tiles of TILE bytes, one block for each
// tile. The table begins with the number of the first tile of each piece, and the number of all tiles; the pieces follow,
// from a multiple of 16. What is computed is defined by `device/host.rs`, byte by byte.

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))
#define KERNEL extern "C" __attribute__((device_kernel))

// Two words that are loaded and stored at once.
typedef u64 Pair __attribute__((ext_vector_type(2)));

constexpr u32 THREADS = 256;
// Bytes of a tile: four pairs for each thread. A multiple of 64, so that tiles share no byte of a mask.
constexpr u32 UNROLLED = 4;
constexpr u64 TILE = THREADS * UNROLLED * sizeof(Pair);

static inline u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
static inline u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
static inline void barrier() { __syncthreads(); }

// Whether `here` holds for any thread of the block.
static inline bool any(bool here) { return __nvvm_bar0_or(here); }

static inline u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

// ---- Memory, by addresses --------------------------------------------------------------------------------------------

template <class T> static inline T load(u64 address) { return *(const T GLOBAL *)address; }
template <class T> static inline void store(u64 address, T value) { *(T GLOBAL *)address = value; }

// `len` bytes (8 at most) from any address, as a word; zeros follow.
static inline u64 load_word(u64 address, u32 len) {
  if (len == 8 && address % 8 == 0) return load<u64>(address);
  u64 word = 0;
#pragma nounroll
  for (u32 i = 0; i < len; i++) word |= (u64)load<u8>(address + i) << 8 * i;
  return word;
}

static inline void store_word(u64 address, u32 len, u64 word) {
  if (len == 8 && address % 8 == 0) return store<u64>(address, word);
#pragma nounroll
  for (u32 i = 0; i < len; i++) store<u8>(address + i, (u8)(word >> 8 * i));
}

// ---- Streams ---------------------------------------------------------------------------------------------------------

constexpr u64 STEP = 0x9e3779b97f4a7c15;

static inline u64 mix(u64 word) {
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
  word = (word ^ word >> 27) * 0x94d049bb133111eb;
  return word ^ word >> 31;
}

struct Stream {
  u64 key, whitening, offset;

  // The word that begins at byte `at`, a multiple of 8 behind the stream's own offset.
  u64 aligned(u64 at) const { return mix(key + ((offset + at) / 8 + 1) * STEP) ^ whitening; }

  u64 word(u64 at) const {
    u32 skipped = (u32)((offset + at) % 8) * 8;
    if (skipped == 0) return aligned(at);
    return aligned(at) >> skipped | aligned(at + 8) << (64 - skipped);
  }

  bool is_aligned() const { return offset % 8 == 0; }
};

// ---- What is read ----------------------------------------------------------------------------------------------------

constexpr u64 HAS_MEMORY = 1, HAS_STREAM = 2;

struct Source {
  u64 memory;
  Stream stream;
  u64 has;

  bool has_memory() const { return has & HAS_MEMORY; }
  bool has_stream() const { return has & HAS_STREAM; }

  // Whether pairs can be read at multiples of 16.
  bool in_pairs() const {
    return (!has_memory() || memory % 16 == 0) && (!has_stream() || stream.is_aligned());
  }

  Pair pair(u64 at) const { return has_memory() ? load<Pair>(memory + at) : Pair{0, 0}; }

  // What turns a loaded pair into what is read.
  Pair unsealed(Pair pair, u64 at) const {
    return has_stream() ? pair ^ Pair{stream.aligned(at), stream.aligned(at + 8)} : pair;
  }

  u64 word(u64 at, u32 len) const {
    u64 word = has_memory() ? load_word(memory + at, len) : 0;
    if (has_stream()) word ^= stream.word(at);
    return len == 8 ? word : word & ((u64)1 << 8 * len) - 1;
  }
};

// ---- Tables ----------------------------------------------------------------------------------------------------------

static inline u64 pieces_of(u64 table, u64 count) { return table + (4 * (count + 1) + 15) / 16 * 16; }

// A tile: which piece, and which of its bytes.
struct Tile {
  u64 piece, begin, end;

  Tile(u64 table, u64 count, u32 size, u64 len_at, u32 number) {
    u32 low = 0, high = (u32)count;
    // The last piece that begins at this tile or before it.
    while (high - low > 1) {
      u32 middle = low + (high - low) / 2;
      if (load<u32>(table + 4 * (u64)middle) <= number) low = middle;
      else high = middle;
    }
    piece = pieces_of(table, count) + (u64)low * size;
    begin = (u64)(number - load<u32>(table + 4 * (u64)low)) * TILE;
    end = smaller(begin + TILE, load<u64>(piece + len_at));
  }
};

#define FIELD(Piece, field) __builtin_offsetof(Piece, field)

// ---- place -----------------------------------------------------------------------------------------------------------

constexpr u64 HAS_SOURCE = 1, HAS_POISON = 2;

struct Place {
  u64 to, len;
  Source from;
  u64 mask;
  Stream poison;
  u64 has;
};

// 0xff for each bit that is set. (Carrying bits to the top of their bytes is shorter, and clang 22.1 makes of it code that loses
// the last byte.)
static inline u64 spread(u32 bits) {
  u64 lowest = (bits & 0x7f) * 0x0002040810204081 & 0x0101010101010101 | (u64)(bits >> 7) << 56;
  return lowest * 0xff;
}

static inline u64 chosen(u64 word, u64 other, u32 bits) {
  u64 others = spread(bits);
  return word & ~others | other & others;
}

KERNEL void place(u64 table, u64 count) {
  Tile tile(table, count, sizeof(Place), FIELD(Place, len), block());
  Place place = load<Place>(tile.piece);
  bool has_source = place.has & HAS_SOURCE, has_poison = place.has & HAS_POISON;
  bool in_pairs = place.to % 16 == 0 && (!has_source || place.from.in_pairs()) &&
                  (!has_poison || place.poison.is_aligned() && place.mask % 2 == 0);
  u64 words_from = tile.begin;
  if (in_pairs) {
    u32 pairs = (u32)((tile.end - tile.begin) / 16);
    words_from += pairs * 16;
    u32 bits[UNROLLED];
    Pair values[UNROLLED];
#pragma unroll
    for (u32 k = 0; k < UNROLLED; k++) {
      u32 pair = k * THREADS + thread();
      u64 at = tile.begin + pair * 16;
      bits[k] = has_poison && pair < pairs ? load<u16>(place.mask + at / 8) : 0;
    }
#pragma unroll
    for (u32 k = 0; k < UNROLLED; k++) {
      u32 pair = k * THREADS + thread();
      u64 at = tile.begin + pair * 16;
      values[k] = Pair{0, 0};
      if (pair >= pairs || bits[k] == 0xffff) continue;
      if (has_source) values[k] = place.from.pair(at);
      else if (bits[k] != 0) values[k] = load<Pair>(place.to + at);
    }
#pragma unroll
    for (u32 k = 0; k < UNROLLED; k++) {
      u32 pair = k * THREADS + thread();
      u64 at = tile.begin + pair * 16;
      if (pair >= pairs || !has_source && bits[k] == 0) continue;
      Pair value = values[k];
      if (has_source && bits[k] != 0xffff) value = place.from.unsealed(value, at);
      if (bits[k] != 0) {
        value.x = chosen(value.x, place.poison.aligned(at), bits[k] & 0xff);
        value.y = chosen(value.y, place.poison.aligned(at + 8), bits[k] >> 8);
      }
      store<Pair>(place.to + at, value);
    }
  }
#pragma nounroll
  for (u64 at = words_from + 8 * thread(); at < tile.end; at += 8 * THREADS) {
    u32 len = (u32)smaller(8, tile.end - at);
    u32 bits = has_poison ? load<u8>(place.mask + at / 8) : 0;
    if (!has_source && bits == 0) continue;
    u64 value = has_source ? place.from.word(at, len) : load_word(place.to + at, len);
    if (bits != 0) value = chosen(value, place.poison.word(at), bits);
    store_word(place.to + at, len, value);
  }
}

// ---- mark_equal, change_masks ----------------------------------------------------------------------------------------

enum Change : u64 { SET, NOT, AND, AND_NOT, OR };

static inline u64 changed(u64 mask, u64 bits, u64 change) {
  switch (change) {
  case SET: return bits;
  case NOT: return ~bits;
  case AND: return mask & bits;
  case AND_NOT: return mask & ~bits;
  default: return mask | bits;
  }
}

struct Mark {
  Source a, b;
  u64 len, mask, change;
};

// One bit for each byte that is zero.
static inline u32 zero_bytes(u64 word) {
  u64 low = 0x7f7f7f7f7f7f7f7f;
  u64 zero = ~((word & low) + low | word) & 0x8080808080808080;
  return (u32)((zero >> 7) * 0x0102040810204080 >> 56);
}

KERNEL void mark_equal(u64 table, u64 count) {
  Tile tile(table, count, sizeof(Mark), FIELD(Mark, len), block());
  Mark mark = load<Mark>(tile.piece);
#pragma nounroll
  for (u64 at = tile.begin + 8 * thread(); at < tile.end; at += 8 * THREADS) {
    u32 len = (u32)smaller(8, tile.end - at);
    u32 bits = zero_bytes(mark.a.word(at, len) ^ mark.b.word(at, len));
    u32 before = mark.change == SET || mark.change == NOT ? 0 : load<u8>(mark.mask + at / 8);
    u32 inside = (1u << len) - 1;
    store<u8>(mark.mask + at / 8, (u8)(changed(before, bits & inside, mark.change) & inside));
  }
}

struct Mask {
  u64 mask, bits, len, change;
};

KERNEL void change_masks(u64 table, u64 count) {
  Tile tile(table, count, sizeof(Mask), FIELD(Mask, len), block());
  Mask mask = load<Mask>(tile.piece);
#pragma nounroll
  for (u64 at = tile.begin + 8 * thread(); at < tile.end; at += 8 * THREADS) {
    u32 len = (u32)smaller(8, tile.end - at);
    u64 before = load_word(mask.mask + at, len);
    store_word(mask.mask + at, len, changed(before, load_word(mask.bits + at, len), mask.change));
  }
}

// ---- sums ------------------------------------------------------------------------------------------------------------

struct Range {
  u64 address, len;
  // Where it begins in what the sum is of, in bytes.
  u64 base;
};

// Adds up over each range: permuted words (a checksum), or bits that are set. `sums` has a word for each, zero at first.
KERNEL void sums(u64 table, u64 count, u64 count_bits, u64 key, u64 sums) {
  static SHARED u64 parts[THREADS];
  Tile tile(table, count, sizeof(Range), FIELD(Range, len), block());
  Range range = load<Range>(tile.piece);
  u64 sum = 0;
  auto add = [&](u64 word, u64 at) {
    sum += count_bits ? __builtin_popcountll(word) : mix(word ^ key + ((range.base + at) / 8 + 1) * STEP);
  };
  u64 words_from = tile.begin;
  if (range.address % 16 == 0) {
    u32 pairs = (u32)((tile.end - tile.begin) / 16);
    words_from += pairs * 16;
    Pair values[UNROLLED];
#pragma unroll
    for (u32 k = 0; k < UNROLLED; k++) {
      u32 pair = k * THREADS + thread();
      if (pair < pairs) values[k] = load<Pair>(range.address + tile.begin + pair * 16);
    }
#pragma unroll
    for (u32 k = 0; k < UNROLLED; k++) {
      u32 pair = k * THREADS + thread();
      if (pair >= pairs) continue;
      u64 at = tile.begin + pair * 16;
      add(values[k].x, at);
      add(values[k].y, at + 8);
    }
  }
#pragma nounroll
  for (u64 at = words_from + 8 * thread(); at < tile.end; at += 8 * THREADS)
    add(load_word(range.address + at, (u32)smaller(8, tile.end - at)), at);

  parts[thread()] = sum;
#pragma nounroll
  for (u32 half = THREADS / 2; half > 0; half /= 2) {
    barrier();
    if (thread() < half) parts[thread()] += parts[thread() + half];
  }
  if (thread() != 0) return;
  u64 index = (tile.piece - pieces_of(table, count)) / sizeof(Range);
  __scoped_atomic_fetch_add((u64 GLOBAL *)(sums + 8 * index), parts[0], __ATOMIC_RELAXED,
                            __MEMORY_SCOPE_DEVICE);
}

// ---- judge -----------------------------------------------------------------------------------------------------------

enum Element : u64 { BITS, UNSIGNED, SIGNED, F16, BF16, F32, F64 };

constexpr u64 IS_EXACT = 1, HAS_ULP = 2;

struct Judge {
  Source actual, expected;
  u64 len;
  // Bytes of an element, and what it is.
  u64 size, element;
  u64 has;
  double absolute, relative;
  u64 ulp;
};

// What was found. Largest values are kept with 1 added to their bits; 0 stands for none.
struct Found {
  u64 bytes, out, within, not_finite;
  u64 absolute, relative, ulp;
  // Offsets; all bits set stand for none.
  u64 largest_at, first_out;
  // Number of the call, in results.
  u64 ticket;

  void clear() {
    *this = Found{0, 0, 0, 0, 0, 0, 0, ~(u64)0, ~(u64)0, 0};
  }
};

static inline u64 larger(u64 a, u64 b) { return a > b ? a : b; }

template <class A, class B> static inline void merge(A &one, const B &other) {
  one.bytes += other.bytes;
  one.out += other.out;
  one.within += other.within;
  one.not_finite += other.not_finite;
  if (other.absolute > one.absolute) {
    one.absolute = other.absolute;
    one.largest_at = other.largest_at;
  } else if (other.absolute == one.absolute) {
    one.largest_at = smaller(one.largest_at, other.largest_at);
  }
  one.relative = larger(one.relative, other.relative);
  one.ulp = larger(one.ulp, other.ulp);
  one.first_out = smaller(one.first_out, other.first_out);
}

// Merges what all threads found into that of the first one.
static inline void merge_all(SHARED Found *found, const Found &own) {
  SHARED Found &mine = found[thread()];
  mine.bytes = own.bytes;
  mine.out = own.out;
  mine.within = own.within;
  mine.not_finite = own.not_finite;
  mine.absolute = own.absolute;
  mine.relative = own.relative;
  mine.ulp = own.ulp;
  mine.largest_at = own.largest_at;
  mine.first_out = own.first_out;
#pragma nounroll
  for (u32 half = THREADS / 2; half > 0; half /= 2) {
    barrier();
    if (thread() < half) merge(mine, found[thread() + half]);
  }
}

static inline void put(u64 address, SHARED Found &found, u64 ticket) {
  store<u64>(address + FIELD(Found, bytes), found.bytes);
  store<u64>(address + FIELD(Found, out), found.out);
  store<u64>(address + FIELD(Found, within), found.within);
  store<u64>(address + FIELD(Found, not_finite), found.not_finite);
  store<u64>(address + FIELD(Found, absolute), found.absolute);
  store<u64>(address + FIELD(Found, relative), found.relative);
  store<u64>(address + FIELD(Found, ulp), found.ulp);
  store<u64>(address + FIELD(Found, largest_at), found.largest_at);
  store<u64>(address + FIELD(Found, first_out), found.first_out);
  store<u64>(address + FIELD(Found, ticket), ticket);
}

constexpr u64 INFINITE = 0x7ff0000000000000;

static inline u64 bits_of(double value) { return __builtin_bit_cast(u64, value); }

struct Difference {
  bool within;
  double absolute, relative;
  bool has_ulp;
  u64 ulp;
};

static inline Difference apart(bool has_ulp, u64 ulp) {
  double infinite = __builtin_bit_cast(double, INFINITE);
  return {false, infinite, infinite, has_ulp, ulp};
}

static inline Difference measured(const Judge &judge, double absolute, double expected, bool has_ulp, u64 ulp) {
  double infinite = __builtin_bit_cast(double, INFINITE);
  double relative = absolute == 0.0 ? 0.0 : expected > 0.0 ? absolute / expected : infinite;
  bool by_value = absolute <= judge.absolute + judge.relative * expected;
  bool by_ulp = has_ulp && judge.has & HAS_ULP && ulp <= judge.ulp;
  return {!(judge.has & IS_EXACT) && (by_value || by_ulp), absolute, relative, has_ulp, ulp};
}

// A float that was widened, and its place in the order of its format's values.
struct Float {
  double value;
  i64 rank;
};

static inline Float decoded(u64 element, u64 bits) {
  double value;
  u64 sign, magnitude;
  switch (element) {
  case F16:
    value = (double)(float)__builtin_bit_cast(_Float16, (u16)bits);
    sign = bits >> 15 & 1, magnitude = bits & 0x7fff;
    break;
  case BF16:
    value = (double)__builtin_bit_cast(float, (u32)bits << 16);
    sign = bits >> 15 & 1, magnitude = bits & 0x7fff;
    break;
  case F32:
    value = (double)__builtin_bit_cast(float, (u32)bits);
    sign = bits >> 31 & 1, magnitude = bits & 0x7fffffff;
    break;
  default:
    value = __builtin_bit_cast(double, bits);
    sign = bits >> 63, magnitude = bits & 0x7fffffffffffffff;
  }
  return {value, sign ? -(i64)magnitude : (i64)magnitude};
}

static inline double size_of(double value) { return __builtin_bit_cast(double, bits_of(value) & ~((u64)1 << 63)); }
static inline bool is_nan(double value) { return bits_of(size_of(value)) > INFINITE; }
static inline bool is_infinite(double value) { return bits_of(size_of(value)) == INFINITE; }

// As `ElementType::difference`. `cut` says that the element is not whole.
static inline Difference difference(const Judge &judge, u64 expected, u64 actual, bool cut) {
  if (cut || judge.element == BITS) return apart(false, 0);
  if (judge.element == UNSIGNED) {
    u64 distance = expected > actual ? expected - actual : actual - expected;
    return measured(judge, (double)distance, (double)expected, false, 0);
  }
  if (judge.element == SIGNED) {
    u32 unused = 64 - 8 * (u32)judge.size;
    i64 e = (i64)(expected << unused) >> unused, a = (i64)(actual << unused) >> unused;
    u64 distance = e > a ? (u64)e - (u64)a : (u64)a - (u64)e;
    return measured(judge, (double)distance, (double)(e < 0 ? 0 - (u64)e : (u64)e), false, 0);
  }
  Float e = decoded(judge.element, expected), a = decoded(judge.element, actual);
  if (is_nan(e.value) || is_nan(a.value)) {
    bool within = !(judge.has & IS_EXACT) && is_nan(e.value) && is_nan(a.value);
    return within ? Difference{true, 0.0, 0.0, false, 0} : apart(false, 0);
  }
  u64 ulp = e.rank > a.rank ? (u64)e.rank - (u64)a.rank : (u64)a.rank - (u64)e.rank;
  if (is_infinite(e.value) || is_infinite(a.value)) return apart(true, ulp);
  return measured(judge, size_of(a.value - e.value), size_of(e.value), true, ulp);
}

// As `Tally::add`, for one element.
static inline void tally(Found &found, const Judge &judge, u64 expected, u64 actual, u64 at, bool cut) {
  found.bytes += 8 - __builtin_popcount(zero_bytes(expected ^ actual));
  Difference d = difference(judge, expected, actual, cut);
  if (judge.element != BITS) {
    if (bits_of(d.absolute) < INFINITE) {
      u64 absolute = bits_of(d.absolute) + 1;
      if (absolute > found.absolute) found.absolute = absolute, found.largest_at = at;
      if (bits_of(d.relative) < INFINITE) found.relative = larger(found.relative, bits_of(d.relative) + 1);
    } else {
      found.not_finite += 1;
    }
    if (d.has_ulp) found.ulp = larger(found.ulp, d.ulp + 1);
  }
  if (d.within) {
    found.within += 1;
  } else {
    found.out += 1;
    found.first_out = smaller(found.first_out, at);
  }
}

// Compares tiles bit by bit: `differs[tile]` says whether anything differs.
KERNEL void judge_bits(u64 table, u64 count, u64 differs) {
  Tile tile(table, count, sizeof(Judge), FIELD(Judge, len), block());
  Judge judge = load<Judge>(tile.piece);
  u64 different = 0;
  u64 words_from = tile.begin;
  if (judge.actual.in_pairs() && judge.expected.in_pairs()) {
    u32 pairs = (u32)((tile.end - tile.begin) / 16);
    words_from += pairs * 16;
    Pair actual[UNROLLED], expected[UNROLLED];
#pragma unroll
    for (u32 k = 0; k < UNROLLED; k++) {
      u32 pair = k * THREADS + thread();
      u64 at = tile.begin + pair * 16;
      if (pair < pairs) actual[k] = judge.actual.pair(at), expected[k] = judge.expected.pair(at);
    }
#pragma unroll
    for (u32 k = 0; k < UNROLLED; k++) {
      u32 pair = k * THREADS + thread();
      u64 at = tile.begin + pair * 16;
      if (pair >= pairs) continue;
      Pair apart = judge.actual.unsealed(actual[k], at) ^ judge.expected.unsealed(expected[k], at);
      different |= apart.x | apart.y;
    }
  }
#pragma nounroll
  for (u64 at = words_from + 8 * thread(); at < tile.end; at += 8 * THREADS) {
    u32 len = (u32)smaller(8, tile.end - at);
    different |= judge.actual.word(at, len) ^ judge.expected.word(at, len);
  }
  bool differ = any(different != 0);
  if (thread() == 0) store<u32>(differs + 4 * (u64)block(), differ);
}

// Compares the elements of tiles where something differs: `found[tile]` says what. Each block has `group` of the `tiles`, no
// more than it has threads: most have nothing to do.
KERNEL void judge_tiles(u64 table, u64 count, u64 differs, u64 found, u64 tiles, u64 group) {
  static SHARED Found all[THREADS];
  u32 first = (u32)(block() * group), end = (u32)smaller(first + group, tiles);
  u32 mine = first + thread();
  if (!any(mine < end && load<u32>(differs + 4 * (u64)mine) != 0)) return;
#pragma nounroll
  for (u32 number = first; number < end; number++) {
    if (load<u32>(differs + 4 * (u64)number) == 0) continue;
    Tile tile(table, count, sizeof(Judge), FIELD(Judge, len), number);
    Judge judge = load<Judge>(tile.piece);
    Found own;
    own.clear();
#pragma nounroll
    for (u64 at = tile.begin + 8 * thread(); at < tile.end; at += 8 * THREADS) {
      u32 len = (u32)smaller(8, tile.end - at);
      u64 actual = judge.actual.word(at, len), expected = judge.expected.word(at, len);
      if (actual == expected) continue;
      u32 size = (u32)judge.size;
      u64 inside = ~(u64)0 >> (64 - 8 * size);
#pragma nounroll
      for (u32 i = 0; i < len; i += size) {
        u64 a = actual >> 8 * i & inside, e = expected >> 8 * i & inside;
        if (a != e) tally(own, judge, e, a, at + i, len - i < size);
      }
    }
    merge_all(all, own);
    if (thread() == 0) put(found + (u64)number * sizeof(Found), all[0], 0);
    barrier();
  }
}

constexpr u32 AHEAD = 8;

// Merges what was found in the tiles of each piece. One block for each piece; `tiles` has the number of its first tile,
// and behind the last piece the number of all.
KERNEL void judge_pieces(u64 tiles, u64 differs, u64 found, u64 results, u64 ticket) {
  static SHARED Found all[THREADS];
  u32 first = load<u32>(tiles + 4 * (u64)block()), end = load<u32>(tiles + 4 * (u64)block() + 4);
  Found own;
  own.clear();
#pragma nounroll
  for (u32 from = first; from < end; from += AHEAD * THREADS) {
    // Several at once: a load takes long, and most say that there is nothing.
    u32 differing = 0;
#pragma unroll
    for (u32 k = 0; k < AHEAD; k++) {
      u32 tile = from + k * THREADS + thread();
      differing |= (tile < end ? load<u32>(differs + 4 * (u64)tile) : 0) << k;
    }
#pragma nounroll
    for (u32 k = 0; k < AHEAD; k++) {
      u32 tile = from + k * THREADS + thread();
      if (!(differing >> k & 1)) continue;
      Found part = load<Found>(found + (u64)tile * sizeof(Found));
      merge(own, part);
    }
  }
  merge_all(all, own);
  if (thread() == 0) put(results + (u64)block() * sizeof(Found), all[0], ticket);
}

// ---- compare_chunks --------------------------------------------------------------------------------------------------

// Compares two buffers, or one with zeros (`expected` 0), chunk by chunk, one block for each: flags[chunk] is 1 if any
// byte of it differs, else 0.
KERNEL void compare_chunks(u64 actual, u64 expected, u64 len, u64 chunk, u64 flags) {
  u64 begin = block() * chunk, end = smaller(begin + chunk, len);
  u64 different = 0;
  u64 words_from = begin;
  if ((actual | expected) % 16 == 0) {
    words_from += (end - begin) / 16 * 16;
#pragma unroll 4
    for (u64 at = begin + 16 * thread(); at < words_from; at += 16 * THREADS) {
      Pair apart = load<Pair>(actual + at);
      if (expected != 0) apart ^= load<Pair>(expected + at);
      different |= apart.x | apart.y;
    }
  }
#pragma nounroll
  for (u64 at = words_from + 8 * thread(); at < end; at += 8 * THREADS) {
    u32 bytes = (u32)smaller(8, end - at);
    u64 word = load_word(actual + at, bytes);
    if (expected != 0) word ^= load_word(expected + at, bytes);
    different |= word;
  }
  bool differs = any(different != 0);
  if (thread() == 0) store<u8>(flags + block(), differs);
}
