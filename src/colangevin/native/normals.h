/* Standard normals as a pure function of (seed, ordinal, step, draw, index).
 *
 * Two 32-bit hashes of an index make two normals by Box and Muller's method; polynomials stand
 * for its logarithm, sine and cosine. Number e of a tensor is in chunk e / 32 and has lane
 * e % 32: lanes below 16 are the first normals of 16 pairs, the others their second ones.
 */
#define NAME(f) NAMED(f, VARIANT, noise)
#define FMA FMA_float

/* -log(x / 2^31) for x from 1 to 2^31: x = 2^e (2 - z), z in (0, 1]. */
TARGET INLINE float NAME(minus_log)(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const float z = FMA((float)(int32_t)(bits & 0x7FFFFF), -0x1p-23f, 1.0f);
    const float octaves = (float)(157 - (int32_t)(bits >> 23));
    float p = FMA(z, 0.004745444729319976f, -0.008858419233975456f);
    p = FMA(p, z, 0.012834680748981864f);
    p = FMA(p, z, 0.0008045839976332375f);
    p = FMA(p, z, 0.017149909050784715f);
    p = FMA(p, z, 0.04146044617201052f);
    p = FMA(p, z, 0.1250105350938252f);
    p = FMA(p, z, 0.4999999119298215f);
    return __builtin_fabsf(FMA(z, p, octaves * 0.69314718055994531f));
}

/* |a| is the radius and |b| the angle within a quadrant, their signs choose the quadrant. */
TARGET INLINE void NAME(box_muller)(int32_t a, int32_t b, float *first, float *second) {
    const float x = (float)(a | 1), y = (float)b;
    const float radius = __builtin_sqrtf(NAME(minus_log)(__builtin_fabsf(x)));
    const float t = FMA(__builtin_fabsf(y), 7.314590396335798e-10f, -0.78539816339744831f);
    const float z = t * t;
    float s = FMA(z, -0.0001950402200100595f, 0.008332036875163595f);
    s = FMA(s, z, -0.16666650699202618f);
    s = FMA(s, z, 0.9999999969263436f) * t;
    float c = FMA(z, -0.0013585908506766396f, 0.041655026883950175f);
    c = FMA(c, z, -0.4999985669584238f);
    c = FMA(c, z, 0.9999999724233206f);
    *first = __builtin_copysignf(radius * (c - s), x);
    *second = __builtin_copysignf(radius * (c + s), y);
}

TARGET INLINE void NAME(chunk)(float *restrict out, uint32_t index, Keys keys) {
    LOOP(lane, HALF) {
        const uint32_t pair = index + (uint32_t)lane;
        const uint32_t shared = first_mix(pair * keys.stride + keys.start);
        const uint32_t a = second_mix(shared ^ keys.left), b = first_mix(shared ^ keys.right);
        NAME(box_muller)((int32_t)a, (int32_t)b, out + lane, out + HALF + lane);
    }
}

/* The numbers e, e + 1, ... of a draw, made chunk by chunk in ``room``; points to the first. */
TARGET static const float *NAME(draw)(float *restrict room, int64_t e, int64_t count,
                                      int64_t seed, int64_t ordinal, int64_t step,
                                      int64_t draw) {
    const int64_t begin = e / CHUNK, end = (e + count + CHUNK - 1) / CHUNK;
    const int64_t part_bits = SEGMENT_BITS - 4; /* of chunks that share keys */
    int64_t part = -1;
    Keys keys = {0, 0, 0, 0};
    for (int64_t c = begin; c < end; c++) {
        if (c >> part_bits != part) {
            part = c >> part_bits;
            keys = make_keys(seed, ordinal, step, draw, part);
        }
        const uint32_t index = (uint32_t)(c * HALF) & ((1u << SEGMENT_BITS) - 1);
        NAME(chunk)(room + (c - begin) * CHUNK, index, keys);
    }
    return room + (e - begin * CHUNK);
}

#undef NAME
#undef FMA
