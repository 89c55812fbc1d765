/* The actions of a step on one block of numbers, for one dtype.
 *
 * In float32 a rotation is made of a rational function, in float64 of sine and cosine: both are
 * right to rounding for every angle.
 */
#define OFF 0.005  /* |e| beyond which a weight is far off its circle */
#define LEFT 8e-4  /* of |q|²/r² - 1, after a rotation, where e was not bounded */
#define TAME (IS_DOUBLE ? 1e150 : 1e15) /* largest |θ| that is projected */
#define SMALL 0.3  /* turns up to which three terms of sine and cosine are enough */
#define NEARLY 0x1p-6f /* |δ| up to which four terms of 1/√(1 + δ) are */
#define SECOND -0.5f
#define THIRD (-1.0f / 6)
#define FOURTH (1.0f / 24)
#define FIFTH (1.0f / 120)
#define SIXTH (-1.0f / 720)
#define SERIES (HAS_LANES && !IS_DOUBLE)
#define NEAR 8     /* slacks, in units of their floor, whose weights may be at their bound */
#define NAME(f) NAMED(f, VARIANT, SUFFIX)
#define NOISE(f) NAMED(f, VARIANT, noise)

/* Numbers of a circle: of all weights alike, or made anew for each. */
typedef struct {
    REAL radius, inverse, square, bound, floor; /* r, 1/r, 1/r², largest |θ|, smallest |ξ| */
    REAL least, most; /* θ² + ξ² of weights that are not far off */
} NAME(Circle);

typedef struct {
    REAL *position, *momentum, *slack;
    const REAL *gradient, *radius;
    int64_t count;
    NAME(Circle) circle;
} NAME(Block);

static NAME(Circle) NAME(circle)(double radius) {
    REAL bound = (REAL)radius;
    if ((double)bound > radius) bound = BELOW(bound);
    return (NAME(Circle)){(REAL)radius, (REAL)(1.0 / radius), (REAL)(1.0 / (radius * radius)),
                          bound, (REAL)(sqrt(EPSILON) * radius),
                          (REAL)(radius * radius * (1 - 2 * OFF)),
                          (REAL)(radius * radius * (1 + 2 * OFF))};
}

TARGET INLINE NAME(Circle) NAME(circle_at)(const NAME(Block) *b, int64_t i, int radii) {
    if (!radii) return b->circle;
    const REAL r = b->radius[i], inverse = (REAL)1 / r;
    return (NAME(Circle)){r, inverse, inverse * inverse, r, (REAL)sqrt(EPSILON) * r,
                          r * r * (REAL)(1 - 2 * OFF), r * r * (REAL)(1 + 2 * OFF)};
}

/* θ within its bound, and a slack that lets it leave. NaN stays what it is. */
TARGET INLINE void NAME(keep_in)(REAL *x, REAL *y, NAME(Circle) c) {
    const REAL in = *x > c.bound ? c.bound : *x;
    *x = in < -c.bound ? -c.bound : in;
    const REAL size = ABS(*y);
    *y = COPYSIGN(c.floor > size ? c.floor : size, *y);
}

/* --- impulse ------------------------------------------------------------------------------- */

typedef struct {
    REAL decay, weight, scale, rate; /* the last one is that of weight decay */
} NAME(Push);

TARGET INLINE REAL NAME(push)(const NAME(Block) *b, int64_t i, const float *noise, NAME(Push) k,
                              int circle, int kick, int radii, int decays) {
    const NAME(Circle) c = circle ? NAME(circle_at)(b, i, radii) : (NAME(Circle)){0};
    REAL change = 0;
    if (noise) change = (REAL)noise[i] * (circle ? c.inverse * k.scale : k.scale);
    if (kick) {
        REAL g = b->gradient[i];
        if (decays) g = FMA(b->position[i], k.rate, g);
        change = circle ? FMA(g * b->slack[i], c.square * k.weight, change)
                        : FMA(g, k.weight, change);
    }
    return FMA(b->momentum[i], k.decay, change);
}

/* --- drift --------------------------------------------------------------------------------- */

typedef struct {
    REAL time, cap, half; /* t, largest |ω|, t/2 */
    REAL small;           /* largest |ω| of a small turn */
} NAME(Turn);

/* One finite but absurd speed must not make NaN: |ωt| is at most 10⁶. */
static NAME(Turn) NAME(turn)(double t) {
    const double cap = fabs(t) > 1e-9 ? 1e6 / fabs(t) : 1e15;
    const double small = fabs(t) > 1e-9 ? SMALL / fabs(t) : 1e8;
    return (NAME(Turn)){(REAL)t, (REAL)cap, (REAL)(t * 0.5), (REAL)small};
}

/* N and D with N/D = tan(ωt/2). */
TARGET INLINE void NAME(half_tangent)(REAL speed, NAME(Turn) k, REAL *up, REAL *down) {
    REAL w = speed > k.cap ? k.cap : speed;
    w = w < -k.cap ? -k.cap : w;
    w = FMA(speed, (REAL)0, w); /* an infinite speed is no angle: NaN, as everywhere else */
#if IS_DOUBLE
    /* Sine and cosine of x = nπ/2 + a, |a| ≤ π/4. A turn by π changes the signs of both, which
     * the rotation made of them does not see: whether n is odd is all that is needed. */
    const REAL x = w * k.half, shift = 0x1.8p52;
    const REAL shifted = FMA(x, 0.63661977236758134, shift), n = shifted - shift;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    REAL a = FMA(n, -1.57079632673412561417e+00, x);
    a = FMA(n, -6.07710050630396597660e-11, a);
    a = FMA(n, -2.02226624879595063154e-21, a);
    const REAL z = a * a;
    REAL s = FMA(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08);
    s = FMA(s, z, 2.75573137070700676789e-06);
    s = FMA(s, z, -1.98412698298579493134e-04);
    s = FMA(s, z, 8.33333333332248946124e-03);
    s = FMA(s, z, -1.66666666666666324348e-01);
    s = FMA(s * z, a, a);
    REAL c = FMA(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09);
    c = FMA(c, z, -2.75573143513906633035e-07);
    c = FMA(c, z, 2.48015872894767294178e-05);
    c = FMA(c, z, -1.38888888888741095749e-03);
    c = FMA(c, z, 4.16666666666666019037e-02);
    c = FMA(c * z, z, FMA(z, -0.5, 1.0));
    *up = bits & 1 ? c : s;
    *down = bits & 1 ? -s : c;
#else
    /* The tangent has the period π; its Padé approximant is right to rounding up to π/2. */
    const REAL x = w * k.half, shift = 0x1.8p23f;
    const REAL n = FMA(x, 0.318309886f, shift) - shift;
    REAL a = FMA(n, -3.14159274f, x);
    a = FMA(n, 8.74227766e-8f, a);
    const REAL z = a * a;
    *down = FMA(z, FMA(z, FMA(z, -28.0f, 3150.0f), -62370.0f), 135135.0f);
    *up = FMA(z, FMA(z, 378.0f - z, -17325.0f), 135135.0f) * a;
#endif
}

/* What a loop of rotations has seen: how far |q|² is off beyond what is allowed, and the smallest |ξ| (if there is a radius
 * for each weight, less its own limit). As bits, which have the same order: the compiler knows
 * how to find the largest of many integers in any order, but not of numbers that may be NaN. */
typedef struct {
    INTEGER off, slack;
} NAME(Seen);

TARGET INLINE INTEGER NAME(bits)(REAL x) {
    INTEGER found;
    memcpy(&found, &x, sizeof found);
    return found;
}

/* What a turn adds of q itself and of its orthogonal to q: (1 + e)(cos - 1) + e, (1 + e) sin. */
TARGET INLINE void NAME(change)(REAL speed, REAL e, NAME(Turn) k, REAL *along, REAL *across) {
    REAL up, down;
    NAME(half_tangent)(speed, k, &up, &down);
    const REAL versed = FMA(e, (REAL)2, (REAL)2) * up / FMA(down, down, up * up);
    *along = FMA(-versed, up, e);
    *across = versed * down;
#if SERIES /* for a small turn, where the products with e are as small as rounding */
    const REAL a = speed * k.time, z = a * a;
    const REAL cosine = FMA(z, FMA(z, FMA(z, SIXTH, FOURTH), SECOND), e);
    const REAL sine = a * FMA(z, FMA(z, FIFTH, THIRD), (REAL)1);
    *along = ABS(speed) <= k.small ? cosine : *along;
    *across = ABS(speed) <= k.small ? sine : *across;
#endif
}

/* Rotate (θ, ξ) by ωt.
 *
 * The factor 1 + e is one Newton step for r/|q|, which takes off what rounding adds. Where |q|²
 * differs from r² by more than a hundredth somebody has written to the weight: see ``tidy``.
 */
TARGET INLINE NAME(Seen) NAME(rotate)(REAL *position, REAL *slack, REAL speed, NAME(Turn) k,
                                      NAME(Circle) c) {
    const REAL x = *position, y = *slack, length = FMA(y, y, x * x);
    REAL bounded = length > c.most ? c.most : length;
    bounded = bounded < c.least ? c.least : bounded;
    const REAL e = FMA(bounded, c.square * (REAL)-0.5, (REAL)0.5);
    REAL along, across;
    NAME(change)(speed, e, k, &along, &across);
    *position = FMA(across, y, FMA(along, x, x));
    *slack = FMA(-across, x, FMA(along, y, y));
    return (NAME(Seen)){NAME(bits)(ABS(length - bounded)), NAME(bits)(ABS(*slack))};
}

/* The weight is kept and its slack made anew, where a drift has left them far off the circle. */
TARGET static void NAME(put_back)(const NAME(Block) *b) {
    for (int64_t i = 0; i < b->count; i++) {
        const REAL x = b->position[i], y = b->slack[i];
        const NAME(Circle) c = b->radius ? NAME(circle_at)(b, i, 1) : b->circle;
        if (ABS(FMA(FMA(y, y, x * x), c.square, (REAL)-1)) <= (REAL)LEFT) continue;
        const REAL size = SQRT((c.radius - x) * (c.radius + x));
        b->slack[i] = COPYSIGN(size > c.floor ? size : c.floor, y);
    }
}

/* What few blocks need after a drift. On a circle |θ| comes near its bound only where |ξ| is
 * small: nothing has to be kept in where all are beyond ``NEAR`` times the floor. */
TARGET static __attribute__((noinline)) void NAME(tidy)(const NAME(Block) *b, NAME(Seen) seen) {
    const INTEGER limit = b->radius ? 0 : NAME(bits)(b->circle.floor * (REAL)NEAR);
    const int far = seen.off > 0;
    if (!far && seen.slack >= limit) return;
    if (b->radius) {
        LOOP(i, b->count)
        NAME(keep_in)(b->position + i, b->slack + i, NAME(circle_at)(b, i, 1));
    } else {
        const NAME(Circle) c = b->circle;
        LOOP(i, b->count) NAME(keep_in)(b->position + i, b->slack + i, c);
    }
    if (far) NAME(put_back)(b);
}

/* --- loops --------------------------------------------------------------------------------- */

TARGET INLINE void NAME(impulse_loop)(const NAME(Block) *b, const float *noise, NAME(Push) k,
                                      int circle, int kick, int radii) {
    LOOP(i, b->count) b->momentum[i] = NAME(push)(b, i, noise, k, circle, kick, radii, 0);
}

#define SEE(seen)                                                                             \
    do {                                                                                      \
        const NAME(Seen) now = seen;                                                          \
        off = now.off > off ? now.off : off;                                                  \
        slack = now.slack < slack ? now.slack : slack;                                        \
    } while (0)

TARGET INLINE void NAME(rotate_loop)(const NAME(Block) *b, NAME(Turn) k, int radii) {
    INTEGER off = 0, slack = NAME(bits)(INFINITY);
    SEEING_LOOP(i, b->count, off, slack) {
        const NAME(Circle) c = NAME(circle_at)(b, i, radii);
        NAME(Seen) seen = NAME(rotate)(b->position + i, b->slack + i, b->momentum[i], k, c);
        if (radii) seen.slack = NAME(bits)(ABS(b->slack[i]) - c.floor * (REAL)NEAR);
        SEE(seen);
    }
    NAME(tidy)(b, (NAME(Seen)){off, slack});
}

/* An impulse by the gradient and a drift. */
TARGET INLINE void NAME(circle_loop)(const NAME(Block) *b, const float *noise, NAME(Push) push,
                                     NAME(Turn) turn, int decays) {
    INTEGER off = 0, slack = NAME(bits)(INFINITY);
    SEEING_LOOP(i, b->count, off, slack) {
        const REAL speed = NAME(push)(b, i, noise, push, 1, 1, 0, decays);
        b->momentum[i] = speed;
        SEE(NAME(rotate)(b->position + i, b->slack + i, speed, turn, b->circle));
    }
    NAME(tidy)(b, (NAME(Seen)){off, slack});
}
#undef SEE

TARGET INLINE void NAME(free_loop)(const NAME(Block) *b, const float *noise, NAME(Push) push,
                                   NAME(Turn) turn, int decays) {
    LOOP(i, b->count) {
        const REAL speed = NAME(push)(b, i, noise, push, 0, 1, 0, decays);
        b->momentum[i] = speed;
        b->position[i] = FMA(speed, turn.time, b->position[i]);
    }
}

/* r q / |q|: the factor is a series in δ where |q|² = r²(1 + δ) is near. */
TARGET INLINE void NAME(project)(REAL *x, REAL *y, NAME(Circle) c) {
    /* A square must not overflow, or one absurd gradient would lose the direction. */
    REAL in = *x > (REAL)TAME ? (REAL)TAME : *x;
    in = in < (REAL)-TAME ? (REAL)-TAME : in;
    const REAL length = FMA(*y, *y, in * in);
    REAL factor = c.radius / SQRT(length);
#if SERIES
    const REAL d = FMA(length, c.square, (REAL)-1);
    const REAL series = FMA(d, FMA(d, FMA(d, -0.3125f, 0.375f), -0.5f), 1.0f);
    factor = ABS(d) <= NEARLY ? series : factor;
#endif
    *x = in * factor;
    *y *= factor;
    NAME(keep_in)(x, y, c);
}

TARGET INLINE void NAME(overdamped_loop)(const NAME(Block) *b, const float *noise,
                                         const float *other, REAL step, REAL scale, int circle,
                                         int radii) {
    LOOP(i, b->count) {
        REAL x = FMA(b->gradient[i], -step, b->position[i]);
        if (noise) x = FMA((REAL)noise[i], scale, x);
        if (circle) {
            REAL y = b->slack[i];
            if (noise) y = FMA((REAL)other[i], scale, y);
            NAME(project)(&x, &y, NAME(circle_at)(b, i, radii));
            b->slack[i] = y;
        }
        b->position[i] = x;
    }
}

#if SERIES
#include "small_steps.h"
#endif

/* --- actions: each choice is made once for a block ------------------------------------------- */

TARGET static void NAME(impulse)(NAME(Block) b, const float *noise, NAME(Push) k, int circle) {
    const int kick = k.weight != 0, radii = b.radius != 0;
#define CASE(n, c, g, r) NAME(impulse_loop)(&b, n, k, c, g, r)
#define EACH(c, r)                                                                            \
    do {                                                                                      \
        if (noise) {                                                                          \
            if (kick) CASE(noise, c, 1, r);                                                   \
            else CASE(noise, c, 0, r);                                                        \
        } else if (kick) CASE(0, c, 1, r);                                                    \
        else CASE(0, c, 0, r);                                                                \
    } while (0)
    if (!circle) EACH(0, 0);
    else if (radii) EACH(1, 1);
    else EACH(1, 0);
#undef EACH
#undef CASE
}

TARGET static void NAME(drift)(NAME(Block) b, NAME(Turn) k, int circle) {
    if (!circle) {
        LOOP(i, b.count) b.position[i] = FMA(b.momentum[i], k.time, b.position[i]);
    } else if (b.radius) NAME(rotate_loop)(&b, k, 1);
#if SERIES
    else NAME(drift_in_pieces)(&b, k);
#else
    else NAME(rotate_loop)(&b, k, 0);
#endif
}

/* An impulse that is followed by a drift: the same bits, where it matters in one loop. */
TARGET static void NAME(pair)(NAME(Block) b, const float *noise, NAME(Push) push,
                              NAME(Turn) turn, int circle) {
    if (push.weight == 0 || b.radius) {
        NAME(impulse)(b, noise, push, circle);
        NAME(drift)(b, turn, circle);
        return;
    }
    const int decays = push.rate != 0;
#define EACH(loop)                                                                            \
    do {                                                                                      \
        if (noise && decays) loop(&b, noise, push, turn, 1);                                  \
        else if (noise) loop(&b, noise, push, turn, 0);                                       \
        else if (decays) loop(&b, 0, push, turn, 1);                                          \
        else loop(&b, 0, push, turn, 0);                                                      \
    } while (0)
#if SERIES
    if (circle) EACH(NAME(pair_in_pieces));
#else
    if (circle) EACH(NAME(circle_loop));
#endif
    else EACH(NAME(free_loop));
#undef EACH
}

TARGET static void NAME(overdamped)(NAME(Block) b, const float *noise, const float *other,
                                    REAL step, REAL scale, int circle) {
#define CASE(n, o, c, r) NAME(overdamped_loop)(&b, n, o, step, scale, c, r)
    if (!circle) {
        if (noise) CASE(noise, 0, 0, 0);
        else CASE(0, 0, 0, 0);
    } else if (b.radius) {
        if (noise) CASE(noise, other, 1, 1);
        else CASE(0, 0, 1, 1);
    } else if (noise) CASE(noise, other, 1, 0);
#if SERIES
    else NAME(overdamped_in_pieces)(&b, step);
#else
    else CASE(0, 0, 1, 0);
#endif
#undef CASE
}

/* G' = G + weight decay · θ, with θ as it is before the first action. */
TARGET static void NAME(decay)(NAME(Block) *b, REAL *restrict room, REAL rate) {
    LOOP(i, b->count) room[i] = FMA(b->position[i], rate, b->gradient[i]);
    b->gradient = room;
}

/* The gradient of a matrix that is given column by column, in the order of the weights. */
TARGET static void NAME(turn_gradient)(NAME(Block) *b, REAL *restrict room, const Segment *s,
                                       int64_t member, int64_t start) {
    const int64_t columns = s->columns, rows = s->size / columns;
    const REAL *g = (const REAL *)(intptr_t)s->gradient + member * s->size;
    if (columns == 2 && start % 2 == 0 && b->count % 2 == 0) {
        const REAL *left = g + start / 2, *right = left + rows;
        LOOP(i, b->count / 2) room[2 * i] = left[i], room[2 * i + 1] = right[i];
    } else {
        for (int64_t i = 0; i < b->count; i++)
            room[i] = g[(start + i) % columns * rows + (start + i) / columns];
    }
    b->gradient = room;
}

/* Whether G' can be made where it is used: once, by a step that begins with an impulse and a
 * drift. A loop and its memory are saved. */
static int NAME(is_used_at_once)(const Task *task, const Segment *s, const double *x) {
    if (s->radius || task->n_actions < 2) return 0;
    if (task->kinds[0] != IMPULSE || task->kinds[1] != DRIFT || x[1] == 0) return 0;
    for (int64_t a = 2; a < task->n_actions; a++)
        if (task->kinds[a] == OVERDAMPED || (task->kinds[a] == IMPULSE && x[3 * a + 1] != 0))
            return 0;
    return 1;
}

static NAME(Block) NAME(block)(const Segment *s, int64_t start, int64_t count, double radius) {
#define AT(field) ((REAL *)(intptr_t)s->field + (s->field ? start : 0))
    return (NAME(Block)){AT(position), AT(momentum), AT(slack), AT(gradient), AT(radius), count,
                         NAME(circle)(radius)};
#undef AT
}

TARGET static void NAME(step)(const Task *task, int64_t item, int64_t member, int64_t start,
                              int64_t count) {
    const Segment *s = task->segments + item;
    const double *row = task->numbers + (s->row + member) * task->width;
    const int circle = task->geometry == CIRCLE;
    const int64_t seed = ((const int64_t *)(intptr_t)s->seeds)[member];
    NAME(Block) b = NAME(block)(s, member * s->size + start, count, row[1]);
    REAL room[BYTES / sizeof(REAL)], turned[BYTES / sizeof(REAL)];
    float rooms[2][BYTES / sizeof(REAL) + 2 * CHUNK];
    int64_t draws = s->draw;
#define DRAW(i)                                                                               \
    NOISE(draw)(rooms[i], s->first + start, count, seed, s->ordinal, s->step, draws++)
    if (s->columns) NAME(turn_gradient)(&b, turned, s, member, start);
    REAL rate = (REAL)row[0];
    if (rate != 0 && !NAME(is_used_at_once)(task, s, row + 2)) {
        NAME(decay)(&b, room, rate);
        rate = 0;
    }
    for (int64_t a = 0; a < task->n_actions; a++) {
        const double *x = row + 2 + 3 * a;
        if (task->kinds[a] == IMPULSE) {
            const float *noise = x[2] != 0 ? DRAW(0) : 0;
            const NAME(Push) push = {(REAL)x[0], (REAL)x[1], (REAL)x[2], rate};
            if (a + 1 < task->n_actions && task->kinds[a + 1] == DRIFT) {
                NAME(pair)(b, noise, push, NAME(turn)(x[3]), circle);
                a++;
            } else {
                NAME(impulse)(b, noise, push, circle);
            }
        } else if (task->kinds[a] == DRIFT) {
            NAME(drift)(b, NAME(turn)(x[0]), circle);
        } else {
            const float *noise = x[1] != 0 ? DRAW(0) : 0;
            const float *other = noise && circle ? DRAW(1) : 0;
            NAME(overdamped)(b, noise, other, (REAL)x[0], (REAL)x[1], circle);
        }
    }
#undef DRAW
}

#undef NAME
#undef NOISE
#undef OFF
#undef LEFT
#undef NEAR
#undef SMALL
#undef NEARLY
#undef SECOND
#undef THIRD
#undef FOURTH
#undef FIFTH
#undef SIXTH
#undef SERIES
#undef TAME
