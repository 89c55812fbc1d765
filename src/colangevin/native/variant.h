/* Everything that runs over blocks, for one set of instructions.
 *
 * Given: VARIANT, a name; TARGET, an attribute; HAS_FMA, whether a·b + c is one instruction.
 */
#if HAS_FMA
#define FMA_float __builtin_fmaf
#define FMA_double __builtin_fma
#else
#define FMA_float(a, b, c) ((a) * (b) + (c))
#define FMA_double(a, b, c) ((a) * (b) + (c))
#endif

#include "normals.h"

#define REAL float
#define SUFFIX float
#define FMA FMA_float
#define SQRT __builtin_sqrtf
#define ABS __builtin_fabsf
#define COPYSIGN __builtin_copysignf
#define EPSILON FLT_EPSILON
#define BELOW(x) nextafterf(x, 0.0f)
#include "step.h"

#define REAL double
#define SUFFIX double
#define FMA FMA_double
#define SQRT __builtin_sqrt
#define ABS __builtin_fabs
#define COPYSIGN __builtin_copysign
#define EPSILON DBL_EPSILON
#define BELOW(x) nextafter(x, 0.0)
#define LIBRARY_TURN
#include "step.h"
#undef LIBRARY_TURN

#undef FMA_float
#undef FMA_double
