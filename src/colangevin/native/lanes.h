/* Vectors of float32 that are written out, for one set of instructions: LANES numbers each. */
#undef V
#undef BITS
#undef LANES
#undef V_ALL
#undef V_LOAD
#undef V_STORE
#undef V_MUL
#undef V_SUB
#undef V_FMA
#undef V_FMS
#undef V_MIN
#undef V_MAX
#undef V_BITS
#undef B_ALL
#undef B_AND
#undef B_OR
#undef B_MIN
#undef B_MAX
#undef ANY_ABOVE
#undef ANY_BELOW
#if VECTOR == 64
#define LANES 16
#define V __m512
#define BITS __m512i
#define V_ALL _mm512_set1_ps
#define V_LOAD _mm512_loadu_ps
#define V_STORE _mm512_storeu_ps
#define V_MUL _mm512_mul_ps
#define V_SUB _mm512_sub_ps
#define V_FMA _mm512_fmadd_ps
#define V_FMS _mm512_fnmadd_ps /* c - ab */
#define V_MIN _mm512_min_ps
#define V_MAX _mm512_max_ps
#define V_BITS _mm512_castps_si512
#define B_ALL _mm512_set1_epi32
#define B_AND _mm512_and_si512
#define B_OR _mm512_or_si512
#define B_MIN _mm512_min_epi32
#define B_MAX _mm512_max_epi32
#define ANY_ABOVE(bits, limit) (_mm512_cmpgt_epi32_mask(bits, B_ALL(limit)) != 0)
#define ANY_BELOW(bits, limit) (_mm512_cmplt_epi32_mask(bits, B_ALL(limit)) != 0)
#else
#define LANES 8
#define V __m256
#define BITS __m256i
#define V_ALL _mm256_set1_ps
#define V_LOAD _mm256_loadu_ps
#define V_STORE _mm256_storeu_ps
#define V_MUL _mm256_mul_ps
#define V_SUB _mm256_sub_ps
#define V_FMA _mm256_fmadd_ps
#define V_FMS _mm256_fnmadd_ps
#define V_MIN _mm256_min_ps
#define V_MAX _mm256_max_ps
#define V_BITS _mm256_castps_si256
#define B_ALL _mm256_set1_epi32
#define B_AND _mm256_and_si256
#define B_OR _mm256_or_si256
#define B_MIN _mm256_min_epi32
#define B_MAX _mm256_max_epi32
#define ANY_ABOVE(bits, limit)                                                                \
    (_mm256_movemask_epi8(_mm256_cmpgt_epi32(bits, B_ALL(limit))) != 0)
#define ANY_BELOW(bits, limit)                                                                \
    (_mm256_movemask_epi8(_mm256_cmpgt_epi32(B_ALL(limit), bits)) != 0)
#endif
#undef SIZE_BITS
#define SIZE_BITS(bits) B_AND(bits, B_ALL(0x7fffffff)) /* of |x|: in the order of the numbers */
