/* Elementwise Langevin steps and counter normals.
 *
 * A step is a list of actions on a list of segments (flat, contiguous pieces of parameters).
 * A segment is cut into blocks that stay in the first cache; all actions, and their noise, are
 * done on one block before the next. So main memory is passed once, whatever the actions are.
 *
 * Every operation on a number is written out (fused multiply-adds too), and every one of them
 * is rounded correctly. Hence vectors, their remainders and any number of threads give the
 * same bits.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LOOP(i, n) _Pragma("omp simd") for (int64_t i = 0; i < (n); i++)
#define PRAGMA(text) _Pragma(#text)
#define COUNTING_LOOP(i, n, flag)                                                             \
    PRAGMA(omp simd reduction(| : flag)) for (int64_t i = 0; i < (n); i++)

enum { FREE = 0, CIRCLE = 1 };
enum { IMPULSE = 1, DRIFT = 2, OVERDAMPED = 3 };
enum {
    CHUNK = 32,           /* numbers whose pairs are 16 neighbours: the widest vector */
    HALF = CHUNK / 2,
    BYTES = 2048,         /* of one tensor in a block: half a page, and a few fit into the first cache */
    LARGEST = BYTES / 4,
    THREADED = 1 << 15    /* numbers from which on threads are worth waking */
};

/* One row of the table that Python keeps. */
typedef struct {
    int64_t position, momentum, slack, gradient, radius, size, first, seed, ordinal, step, draw,
        row;
} Segment;

typedef struct {
    int64_t out, size, first, seed, ordinal, step, draw;
} Fill;

typedef struct Task Task;
struct Task {
    void (*block)(const Task *, int64_t item, int64_t start, int64_t count);
    int64_t (*size)(const Task *, int64_t item);
    int64_t items, length; /* of how many numbers a block is */
    int64_t geometry, n_actions, width, total;
    const Segment *segments;
    const Fill *fills;
    const int64_t *kinds;
    const double *numbers;
};

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

/* --- the loops, once for each instruction set and dtype ------------------------------------ */

#define JOIN(a, b, c) a##_##b##_##c
#define NAMED(a, b, c) JOIN(a, b, c)

#define VARIANT base
#define TARGET
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define HAS_FMA 1
#else
#define HAS_FMA 0 /* there a library function would do it, a hundred times slower */
#endif
#include "variant.h"
#undef VARIANT
#undef TARGET
#undef HAS_FMA

#if defined(COLANGEVIN_PORTABLE) && defined(__x86_64__)
#define HAS_VARIANTS 1
#define HAS_FMA 1
#define VARIANT wide
#define TARGET __attribute__((target("avx2,fma")))
#include "variant.h"
#undef VARIANT
#undef TARGET
#define VARIANT widest
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#include "variant.h"
#undef VARIANT
#undef TARGET
#undef HAS_FMA
#endif

typedef struct {
    void (*step[2])(const Task *, int64_t, int64_t, int64_t);
    void (*normals[2])(const Task *, int64_t, int64_t, int64_t);
} Loops;

#define LOOPS(v)                                                                              \
    {{step_##v##_float, step_##v##_double}, {normals_##v##_float, normals_##v##_double}}

static Loops choose(void) {
#ifdef HAS_VARIANTS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return (Loops)LOOPS(widest);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (Loops)LOOPS(wide);
#endif
    return (Loops)LOOPS(base);
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

/* The blocks that begin within the share [part, part + 1) / parts of all numbers. */
static void share(const Task *task, int64_t part, int64_t parts) {
    const int64_t low = task->total / parts * part + task->total % parts * part / parts;
    const int64_t high =
        task->total / parts * (part + 1) + task->total % parts * (part + 1) / parts;
    int64_t before = 0;
    for (int64_t item = 0; item < task->items && before < high; item++) {
        const int64_t size = task->size(task, item), length = task->length;
        int64_t start = low > before ? (low - before + length - 1) / length * length : 0;
        for (; start < size && before + start < high; start += length)
            task->block(task, item, start, size - start < length ? size - start : length);
        before += size;
    }
}

static void work(void *task) { share(task, thread_number(), thread_count()); }

static void run(Task *task, int64_t threads) {
    task->total = 0;
    for (int64_t item = 0; item < task->items; item++) task->total += task->size(task, item);
    if (threads > 1 && parallel && task->total >= THREADED)
        parallel(work, task, (unsigned)threads, 0);
    else
        share(task, 0, 1);
}

static int64_t segment_size(const Task *task, int64_t item) { return task->segments[item].size; }
static int64_t fill_size(const Task *task, int64_t item) { return task->fills[item].size; }

/* --- what Python calls --------------------------------------------------------------------- */

void cola_step(int64_t dtype, int64_t geometry, int64_t n_segments, const int64_t *segments,
               int64_t n_actions, const int64_t *kinds, const double *numbers, int64_t width,
               int64_t threads) {
    Task task = {
        .block = choose().step[dtype],
        .size = segment_size,
        .items = n_segments,
        .length = BYTES / (dtype ? sizeof(double) : sizeof(float)),
        .geometry = geometry,
        .n_actions = n_actions,
        .width = width,
        .segments = (const Segment *)segments,
        .kinds = kinds,
        .numbers = numbers,
    };
    run(&task, threads);
}

void cola_normals(int64_t dtype, int64_t n_jobs, const int64_t *jobs, int64_t threads) {
    Task task = {
        .block = choose().normals[dtype],
        .size = fill_size,
        .items = n_jobs,
        .length = LARGEST,
        .fills = (const Fill *)jobs,
    };
    run(&task, threads);
}
