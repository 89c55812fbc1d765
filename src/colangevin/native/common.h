/* What the kernels share: loops, keys of the noise, threads. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define PRAGMA(text) _Pragma(#text)
#define LOOP(i, n) PRAGMA(omp simd) for (int64_t i = 0; i < (n); i++)
#define SEEING_LOOP(i, n, largest)                                                            \
    PRAGMA(omp simd reduction(max : largest)) for (int64_t i = 0; i < (n); i++)
#define JOIN(a, b, c) a##_##b##_##c
#define NAMED(a, b, c) JOIN(a, b, c)

enum { IMPULSE = 1, DRIFT = 2, OVERDAMPED = 3 };
enum { CHUNK = 32, HALF = CHUNK / 2 }; /* numbers whose pairs are 16 neighbours */

/* --- keys of the noise ------------------------------------------------------------------- */

typedef struct {
    uint32_t start, stride, left, right;
} Keys;

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15u;
enum { SEGMENT_BITS = 23 }; /* pairs that share keys: few against the 2^32 values of a hash */

/* The last lines of splitmix64: every bit of x changes every bit of the result. */
static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static Keys make_keys(int64_t seed, int64_t ordinal, int64_t step, int64_t draw, int64_t part) {
    const int64_t values[] = {seed, ordinal, step, draw, part};
    uint64_t h = 0;
    for (int i = 0; i < 5; i++) h = mix(h + GOLDEN * ((uint64_t)values[i] + 1));
    const uint64_t a = mix(h + GOLDEN), b = mix(h + 2 * GOLDEN);
    return (Keys){(uint32_t)(a >> 32), (uint32_t)a | 1, (uint32_t)(b >> 32), (uint32_t)b};
}

INLINE uint32_t first_mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    return (x ^ (x >> 15)) * 0x846CA68Bu;
}

INLINE uint32_t second_mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x21F0AAADu;
    return (x ^ (x >> 15)) * 0xD35A2D97u;
}

/* --- threads ------------------------------------------------------------------------------- */

/* Those of the OpenMP library that torch uses: two pools of threads would wait for each other
 * by spinning. Python hands over its functions; without them there is one thread. */
static void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
static int (*thread_number)(void);
static int (*thread_count)(void);

void cola_threads(int64_t start, int64_t number, int64_t count) {
    *(void **)&parallel = (void *)(intptr_t)start;
    *(void **)&thread_number = (void *)(intptr_t)number;
    *(void **)&thread_count = (void *)(intptr_t)count;
}
