/* Include the file TEMPLATE once for each dtype. */
#define REAL float
#define INTEGER int32_t
#define SUFFIX float
#define FMA FMA_float
#define ABS __builtin_fabsf
#define SQRT __builtin_sqrtf
#define COPYSIGN __builtin_copysignf
#define EPSILON FLT_EPSILON
#define BELOW(x) nextafterf(x, 0.0f)
#define IS_DOUBLE 0
#include TEMPLATE
#undef REAL
#undef INTEGER
#undef SUFFIX
#undef FMA
#undef ABS
#undef SQRT
#undef COPYSIGN
#undef EPSILON
#undef BELOW
#undef IS_DOUBLE

#define REAL double
#define INTEGER int64_t
#define SUFFIX double
#define FMA FMA_double
#define ABS __builtin_fabs
#define SQRT __builtin_sqrt
#define COPYSIGN __builtin_copysign
#define EPSILON DBL_EPSILON
#define BELOW(x) nextafter(x, 0.0)
#define IS_DOUBLE 1
#include TEMPLATE
#undef REAL
#undef INTEGER
#undef SUFFIX
#undef FMA
#undef ABS
#undef SQRT
#undef COPYSIGN
#undef EPSILON
#undef BELOW
#undef IS_DOUBLE
