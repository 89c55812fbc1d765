/* Include the file BODY once for each set of instructions that the library may find.
 *
 * For each: VARIANT, a name; TARGET, an attribute of functions; HAS_FMA, whether a·b + c is one
 * instruction; VECTOR, the bytes of a vector; HEIGHT, how many pairs of vectors a loop can sum
 * up in registers.
 */
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define HAS_FMA 1
#else
#define HAS_FMA 0 /* there a library function would do it, a hundred times slower */
#endif
#if defined(__AVX512F__)
#define VECTOR 64
#define HEIGHT 8
#elif defined(__AVX__)
#define VECTOR 32
#define HEIGHT 4
#else
#define VECTOR 16
#define HEIGHT 4
#endif
#define VARIANT base
#define TARGET
#include "variant.h"

#if defined(COLANGEVIN_PORTABLE) && defined(__x86_64__)
#define HAS_VARIANTS 1
#define HAS_FMA 1
#define VECTOR 32
#define HEIGHT 4
#define VARIANT wide
#define TARGET __attribute__((target("avx2,fma")))
#include "variant.h"
#define HAS_FMA 1
#define VECTOR 64
#define HEIGHT 8
#define VARIANT widest
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")))
#include "variant.h"
#endif

/* CHOOSE: the function of a name and dtype for the processor that it runs on. */
#ifdef HAS_VARIANTS
static int variant(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return 2;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#define PICK(name, dtype)                                                                     \
    (variant() == 2   ? name##_widest_##dtype                                                 \
     : variant() == 1 ? name##_wide_##dtype                                                   \
                      : name##_base_##dtype)
#else
#define PICK(name, dtype) name##_base_##dtype
#endif
#define CHOOSE(name, dtype) ((dtype) ? PICK(name, double) : PICK(name, float))
