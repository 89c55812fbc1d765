/* The file BODY for one set of instructions, whose description ends here. */
#if HAS_FMA
#define FMA_float __builtin_fmaf
#define FMA_double __builtin_fma
#else
#define FMA_float(a, b, c) ((a) * (b) + (c))
#define FMA_double(a, b, c) ((a) * (b) + (c))
#endif
#include BODY
#undef FMA_float
#undef FMA_double
#undef VARIANT
#undef TARGET
#undef HAS_FMA
#undef VECTOR
#undef HEIGHT
