/* The actions of a step on one block of numbers, for one dtype.
 *
 * A weight on a circle is kept by its angle φ: θ = r sin φ, and its slack would be r cos φ. The
 * polynomials are right to rounding. With momentum there is no division. Loops are short, because
 * a processor that waits for the long chain of one weight does not see enough of the next ones.
 */
#define NAME(f) NAMED(f, VARIANT, SUFFIX)
#define NOISE(f) NAMED(f, VARIANT, noise)
#if IS_DOUBLE
#define PI 0x1.921fb54442d18p+1
#define PI_REST 0x1.1a62633145c07p-53 /* what is missing to π */
#define ROUND 0x1.8p52                /* added and taken away again, it leaves an integer */
#define LEAST 0x1p-26                 /* √eps */
#else
#define PI 0x1.921fb6p+1f
#define PI_REST -0x1.777a5cp-24f
#define ROUND 0x1.8p23f
#define LEAST 0x1.6a09e6p-12f
#endif
#define TAN ((REAL)0.41421356237309503) /* π/8 */
#define INSIDE ((REAL)1.5) /* up to this |φ| a weight is not near its bound */

/* Numbers of a circle: of all weights alike, or made anew for each. */
typedef struct {
    REAL radius, inverse, bound; /* r, 1/r, largest |θ| */
} NAME(Circle);

typedef struct {
    REAL *position, *momentum, *angle, *mean, *square;
    const REAL *gradient, *radius;
    int64_t count;
    NAME(Circle) circle;
} NAME(Block);

static NAME(Circle) NAME(circle)(double radius) {
    REAL bound = (REAL)radius;
    if ((double)bound > radius) bound = BELOW(bound);
    return (NAME(Circle)){(REAL)radius, (REAL)(1.0 / radius), bound};
}

TARGET INLINE NAME(Circle) NAME(circle_at)(const NAME(Block) *b, int64_t i, int radii) {
    if (!radii) return b->circle;
    const REAL r = b->radius[i];
    return (NAME(Circle)){r, (REAL)1 / r, r};
}

/* --- angles: NaN stays what it is ------------------------------------------------------------ */

TARGET INLINE INTEGER NAME(bits)(REAL x) {
    INTEGER found;
    memcpy(&found, &x, sizeof found);
    return found;
}

/* factor · sin x for |x| ≤ π/2. */
TARGET INLINE REAL NAME(sine)(REAL x, REAL factor) {
    const REAL z = x * x;
#if IS_DOUBLE
    REAL s = FMA(z, factor * 2.7211749779461218681e-15, factor * -7.6429914915959775988e-13);
    s = FMA(s, z, factor * 1.6058939706030830842e-10);
    s = FMA(s, z, factor * -2.5052106872806263313e-08);
    s = FMA(s, z, factor * 2.7557319211137339902e-06);
    s = FMA(s, z, factor * -1.9841269841209219738e-04);
    s = FMA(s, z, factor * 8.3333333333331943085e-03);
    s = FMA(s, z, factor * -1.6666666666666665570e-01);
#else
    REAL s = FMA(z, factor * 2.60578016e-6f, factor * -1.98096027e-4f);
    s = FMA(s, z, factor * 8.33306624e-3f);
    s = FMA(s, z, factor * -1.66666596e-1f);
#endif
    return FMA(s, z, factor) * x;
}

/* factor · cos φ for |φ| ≤ π. */
TARGET INLINE REAL NAME(cosine)(REAL angle, REAL factor) {
    return NAME(sine)((PI / 2 - ABS(angle)) + PI_REST / 2, factor);
}

/* θ = r sin φ for |φ| ≤ π, not beyond its bound. */
TARGET INLINE REAL NAME(weight)(REAL angle, NAME(Circle) c) {
    const REAL size = ABS(angle), rest = (PI - size) + PI_REST;
    const REAL x = NAME(sine)(rest < size ? rest : size, c.radius);
    return COPYSIGN(c.bound < x ? c.bound : x, angle);
}

/* φ + ωt from -π to π, without the whole turns of ωt. An absurd angle stays finite, an infinite one
 * becomes NaN. */
TARGET INLINE REAL NAME(turned)(REAL angle, REAL speed, REAL time) {
    const REAL turn = speed * time, turns = FMA(turn, (REAL)0.15915494309189535, ROUND) - ROUND;
    const REAL rest = FMA(turns, PI_REST * -2, FMA(turns, PI * -2, turn));
    const REAL a = turns == 0 ? FMA(speed, time, angle) : angle + rest;
    const REAL b = ABS(a) > PI ? (a - COPYSIGN(PI * 2, a)) - COPYSIGN(PI_REST * 2, a) : a;
    return COPYSIGN(ABS(b) > PI ? PI : ABS(b), b);
}

/* An angle that is not nearer to ±π/2 than √eps: there cos φ would be 0, and a weight that is
 * pressed against its bound could never leave. */
TARGET INLINE REAL NAME(held)(REAL angle) {
    const REAL size = ABS(angle), rest = PI / 2 - size, edge = PI / 2 - COPYSIGN(LEAST, rest);
    return COPYSIGN(ABS(rest) < LEAST ? edge : size, angle);
}

/* arctan t for |t| ≤ tan π/8. */
TARGET INLINE REAL NAME(arctan)(REAL t) {
    const REAL z = t * t;
#if IS_DOUBLE
    REAL p = FMA(z, 0.021259877889059923282, -0.043590983538801961051);
    p = FMA(p, z, 0.056925402071554135019);
    p = FMA(p, z, -0.066411214542573719557);
    p = FMA(p, z, 0.076900683346139006822);
    p = FMA(p, z, -0.090907824151812130752);
    p = FMA(p, z, 0.11111106653718215489);
    p = FMA(p, z, -0.14285714195264888372);
    p = FMA(p, z, 0.19999999999089003001);
    p = FMA(p, z, -0.33333333333330150966);
#else
    REAL p = FMA(z, 0.0805372978f, -0.138776819f);
    p = FMA(p, z, 0.199777104f);
    p = FMA(p, z, -0.333329491f);
#endif
    return FMA(p * z, t, t);
}

/* The angle from (0, 1) to a multiple of (x, y): NaN if x is infinite. */
TARGET INLINE REAL NAME(angle_of)(REAL x, REAL y) {
    const REAL up = ABS(x), across = ABS(y), large = up > across ? up : across,
               small = up > across ? across : up;
    const int half = small > TAN * large;
    REAL a = NAME(arctan)((half ? small - large : small) / (half ? small + large : large));
    a = half ? PI / 4 + a : a;
    a = up > across ? PI / 2 - a : a;
    a = y < 0 ? PI - a : a;
    return COPYSIGN(FMA(up, (REAL)0, a), x);
}

/* --- loops ----------------------------------------------------------------------------------- */

typedef struct {
    REAL decay, weight, scale;
} NAME(Push);

TARGET INLINE REAL NAME(push)(const NAME(Block) *b, int64_t i, const float *noise, NAME(Push) k,
                              NAME(Circle) c, int circle, int kick) {
    REAL change = 0;
    if (noise) change = (REAL)noise[i] * (circle ? c.inverse * k.scale : k.scale);
    if (kick) {
        const REAL weight = circle ? NAME(cosine)(b->angle[i], c.inverse * k.weight) : k.weight;
        change = noise ? FMA(b->gradient[i], weight, change) : b->gradient[i] * weight;
    }
    return FMA(b->momentum[i], k.decay, change);
}

TARGET INLINE void NAME(impulse_loop)(const NAME(Block) *b, const float *noise, NAME(Push) k,
                                      int circle, int kick, int radii) {
    LOOP(i, b->count) {
        const NAME(Circle) c = NAME(circle_at)(b, i, radii);
        b->momentum[i] = NAME(push)(b, i, noise, k, c, circle, kick);
    }
}

/* The weights of new angles φ + ωt, by the shortest loops that the farthest of them allows: those
 * that are left out would change nothing. */
TARGET INLINE void NAME(settle)(const NAME(Block) *b, const REAL *restrict old,
                                const REAL *restrict speed, REAL time, INTEGER farthest,
                                int radii) {
    if (farthest > NAME(bits)(PI))
        LOOP(i, b->count) b->angle[i] = NAME(turned)(old[i], speed[i], time);
    if (farthest <= NAME(bits)(INSIDE)) {
        LOOP(i, b->count)
        b->position[i] = NAME(sine)(b->angle[i], NAME(circle_at)(b, i, radii).radius);
        return;
    }
    LOOP(i, b->count) b->angle[i] = NAME(held)(b->angle[i]);
    LOOP(i, b->count)
    b->position[i] = NAME(weight)(b->angle[i], NAME(circle_at)(b, i, radii));
}

/* A drift, after an impulse by the gradient if ``kick``: the same bits, with less memory. */
TARGET INLINE void NAME(drift_loop)(const NAME(Block) *b, REAL *restrict old, const float *noise,
                                    NAME(Push) k, REAL time, int circle, int radii, int kick) {
    INTEGER farthest = 0; /* |φ| as bits, which have the order of the numbers */
    SEEING_LOOP(i, b->count, farthest) {
        REAL speed = b->momentum[i];
        if (kick) {
            speed = NAME(push)(b, i, noise, k, NAME(circle_at)(b, i, radii), circle, 1);
            b->momentum[i] = speed;
        }
        if (circle) {
            const REAL angle = FMA(speed, time, b->angle[i]);
            const INTEGER size = NAME(bits)(ABS(angle));
            old[i] = b->angle[i]; /* to take whole turns off, see ``turned`` */
            b->angle[i] = angle;
            farthest = size > farthest ? size : farthest;
        } else b->position[i] = FMA(speed, time, b->position[i]);
    }
    if (circle) NAME(settle)(b, old, b->momentum, time, farthest, radii);
}

TARGET INLINE void NAME(free_loop)(const NAME(Block) *b, const float *noise, REAL step,
                                   REAL scale) {
    LOOP(i, b->count) {
        const REAL x = FMA(b->gradient[i], -step, b->position[i]);
        b->position[i] = noise ? FMA((REAL)noise[i], scale, x) : x;
    }
}

/* (θ, ξ) - hG + noise, whose angle is all that is left of its projection. */
TARGET INLINE void NAME(project_loop)(const NAME(Block) *b, REAL *restrict room,
                                      const float *noise, const float *other, REAL step,
                                      REAL scale, int radii) {
    LOOP(i, b->count) {
        const NAME(Circle) c = NAME(circle_at)(b, i, radii);
        const REAL x = FMA(b->gradient[i], -step, b->position[i]);
        const REAL y = NAME(cosine)(b->angle[i], c.radius);
        b->position[i] = FMA((REAL)noise[i], scale, x);
        room[i] = FMA((REAL)other[i], scale, y);
    }
    LOOP(i, b->count) b->angle[i] = NAME(angle_of)(b->position[i], room[i]);
    LOOP(i, b->count) b->angle[i] = NAME(held)(b->angle[i]);
    LOOP(i, b->count)
    b->position[i] = NAME(weight)(b->angle[i], NAME(circle_at)(b, i, radii));
}

/* The same without noise, by the angle from (θ, ξ) on: most blocks have small ones only. */
TARGET INLINE void NAME(turn_loop)(const NAME(Block) *b, REAL *restrict turn, REAL *restrict old,
                                   REAL step, int radii) {
    INTEGER farthest = 0;
    int steep = 0;
    _Pragma("omp simd reduction(| : steep)") for (int64_t i = 0; i < b->count; i++) {
        const NAME(Circle) c = NAME(circle_at)(b, i, radii);
        const REAL x = b->gradient[i] * -step, across = x * NAME(cosine)(b->angle[i], 1);
        const REAL along = FMA(x, b->position[i] * c.inverse, c.radius);
        turn[i] = across;
        old[i] = along;
        steep |= !(ABS(across) <= TAN * along);
    }
    if (steep) LOOP(i, b->count) turn[i] = NAME(angle_of)(turn[i], old[i]);
    else LOOP(i, b->count) {
        const REAL size = ABS(turn[i]), angle = NAME(arctan)(size / old[i]);
        turn[i] = COPYSIGN(FMA(size, (REAL)0, angle), turn[i]);
    }
    SEEING_LOOP(i, b->count, farthest) {
        const REAL angle = turn[i] + b->angle[i];
        const INTEGER size = NAME(bits)(ABS(angle));
        old[i] = b->angle[i];
        b->angle[i] = angle;
        farthest = size > farthest ? size : farthest;
    }
    NAME(settle)(b, old, turn, 1, farthest, radii);
}

/* --- actions: each choice is made once for a block ------------------------------------------- */

#define EACH(call)                                                                            \
    do {                                                                                      \
        if (!circle) call(0, 0);                                                              \
        else if (b.radius) call(1, 1);                                                        \
        else call(1, 0);                                                                      \
    } while (0)

TARGET static void NAME(impulse)(NAME(Block) b, const float *noise, NAME(Push) k, int circle) {
#define NOISY(c, r) NAME(impulse_loop)(&b, noise, k, c, 0, r)
#define QUIET(c, r) NAME(impulse_loop)(&b, 0, k, c, 0, r)
#define NOISY_KICK(c, r) NAME(impulse_loop)(&b, noise, k, c, 1, r)
#define QUIET_KICK(c, r) NAME(impulse_loop)(&b, 0, k, c, 1, r)
    if (noise && k.weight != 0) EACH(NOISY_KICK);
    else if (noise) EACH(NOISY);
    else if (k.weight != 0) EACH(QUIET_KICK);
    else EACH(QUIET);
#undef NOISY
#undef QUIET
#undef NOISY_KICK
#undef QUIET_KICK
}

TARGET static void NAME(drift)(NAME(Block) b, REAL *restrict room, const float *noise,
                               NAME(Push) k, REAL time, int circle, int kick) {
#define ALONE(c, r) NAME(drift_loop)(&b, room, 0, k, time, c, r, 0)
#define NOISY(c, r) NAME(drift_loop)(&b, room, noise, k, time, c, r, 1)
#define QUIET(c, r) NAME(drift_loop)(&b, room, 0, k, time, c, r, 1)
    if (!kick) EACH(ALONE);
    else if (noise) EACH(NOISY);
    else EACH(QUIET);
#undef ALONE
#undef NOISY
#undef QUIET
}

TARGET static void NAME(overdamped)(NAME(Block) b, REAL *restrict room, REAL *restrict more,
                                    const float *noise, const float *other, REAL step, REAL scale,
                                    int circle) {
#define NOISY(c, r) NAME(project_loop)(&b, room, noise, other, step, scale, r)
#define QUIET(c, r) NAME(turn_loop)(&b, room, more, step, r)
    if (!circle && noise) NAME(free_loop)(&b, noise, step, scale);
    else if (!circle) NAME(free_loop)(&b, 0, step, 0);
    else if (noise) EACH(NOISY);
    else EACH(QUIET);
#undef NOISY
#undef QUIET
}
#undef EACH

#include "force.h"

static NAME(Block) NAME(block)(const Segment *s, int64_t start, int64_t count, double radius) {
#define AT(field) ((REAL *)(intptr_t)s->field + (s->field ? start : 0))
    return (NAME(Block)){AT(position), AT(momentum), AT(slack),  AT(mean), AT(square),
                         AT(gradient), AT(radius),   count,      NAME(circle)(radius)};
#undef AT
}

TARGET static void NAME(step)(const Task *task, int64_t item, int64_t member, int64_t start,
                              int64_t count) {
    const Segment *s = task->segments + item;
    const double *row = task->numbers + (s->row + member) * task->width;
    const int circle = task->geometry == CIRCLE;
    const int64_t seed = ((const int64_t *)(intptr_t)s->seeds)[member];
    NAME(Block) b = NAME(block)(s, member * s->size + start, count, row[1]);
    enum { COUNT = BYTES / sizeof(REAL) };
    REAL force[COUNT], room[COUNT], more[COUNT];
    float rooms[2][COUNT + 2 * CHUNK];
    int64_t draws = s->draw;
#define DRAW(i)                                                                               \
    NOISE(draw)(rooms[i], s->first + start, count, seed, s->ordinal, s->step, draws++)
    NAME(force)(&b, force, task, item, member, start);
    for (int64_t a = 0; a < task->n_actions; a++) {
        const double *x = row + HEAD + 3 * a;
        if (task->kinds[a] == IMPULSE) {
            const float *noise = x[2] != 0 ? DRAW(0) : 0;
            const NAME(Push) push = {(REAL)x[0], (REAL)x[1], (REAL)x[2]};
            if (x[1] != 0 && a + 1 < task->n_actions && task->kinds[a + 1] == DRIFT) {
                NAME(drift)(b, room, noise, push, (REAL)x[3], circle, 1);
                a++;
            } else {
                NAME(impulse)(b, noise, push, circle);
            }
        } else if (task->kinds[a] == DRIFT) {
            NAME(drift)(b, room, 0, (NAME(Push)){0}, (REAL)x[0], circle, 0);
        } else {
            const float *noise = x[1] != 0 ? DRAW(0) : 0;
            const float *other = noise && circle ? DRAW(1) : 0;
            NAME(overdamped)(b, room, more, noise, other, (REAL)x[0], (REAL)x[1], circle);
        }
    }
#undef DRAW
}

#include "rows.h"

#undef NAME
#undef NOISE
#undef PI
#undef PI_REST
#undef ROUND
#undef LEAST
#undef INSIDE
#undef TAN
