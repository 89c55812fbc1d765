/* The actions of a step on rows of a sphere, ‖w‖² + ξ² = r² with a slack ξ, or without one.
 *
 * A block is a few whole rows, or one that is longer than a block. A loop over numbers is followed
 * by the sums of each row, in an order that depends on nothing but its length.
 */
#define WIDE ((int64_t)(64 / sizeof(REAL)))
#define LONGEST ((int64_t)(BYTES / sizeof(REAL)))

typedef REAL NAME(Wide) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));

typedef struct {
    const Task *task;
    int64_t item, member, start, length, count; /* of a row, and how many there are */
    int64_t draws, seed;
    REAL *position, *momentum, *slack, *slack_momentum;
    const REAL *radii;
    REAL radius, limit; /* what momenta and proposals are cut off at */
} NAME(Rows);

/* --- sums ------------------------------------------------------------------------------------ */

TARGET INLINE REAL NAME(dot)(const REAL *x, const REAL *y, int64_t n) {
#define AT(from, j) (*(const NAME(Wide) *)((from) + i + (j)*WIDE))
    NAME(Wide) a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i = 0;
    for (; i + 4 * WIDE <= n; i += 4 * WIDE) {
        a += AT(x, 0) * AT(y, 0);
        b += AT(x, 1) * AT(y, 1);
        c += AT(x, 2) * AT(y, 2);
        d += AT(x, 3) * AT(y, 3);
    }
    for (; i + WIDE <= n; i += WIDE) a += AT(x, 0) * AT(y, 0);
    if (i < n) {
        REAL rest[2][64 / sizeof(REAL)] = {{0}};
        memcpy(rest[0], x + i, (size_t)(n - i) * sizeof(REAL));
        memcpy(rest[1], y + i, (size_t)(n - i) * sizeof(REAL));
        b += *(const NAME(Wide) *)rest[0] * *(const NAME(Wide) *)rest[1];
    }
#undef AT
    REAL lanes[64 / sizeof(REAL)];
    *(NAME(Wide) *)lanes = (a + b) + (c + d);
    for (int64_t half = WIDE / 2; half; half /= 2)
        for (int64_t k = 0; k < half; k++) lanes[k] += lanes[k + half];
    return lanes[0];
}

TARGET INLINE REAL NAME(tamed)(REAL x, REAL limit) {
    return x > limit ? limit : x < -limit ? -limit : x;
}

TARGET INLINE REAL NAME(radius_of)(const NAME(Rows) *t, int64_t r) {
    return t->radii ? t->radii[r] : t->radius;
}

/* --- the first half of an action: numbers one by one, in pieces that stay in the cache -------- */

/* What all numbers of the piece from ``at`` on are moved by: their force, if it is asked for, and
 * their normals. */
TARGET static const float *NAME(piece)(const NAME(Rows) *t, NAME(Block) *b, int64_t at, int forced,
                                       int noisy, REAL *force, float *room) {
    const Segment *s = t->task->segments + t->item;
    const int64_t all = t->length * t->count, first = t->member * s->size + t->start + at;
    *b = NAME(block)(s, first, all - at < LONGEST ? all - at : LONGEST, 1);
    if (forced) NAME(force)(b, force, t->task, t->item, t->member, t->start + at);
    if (!noisy) return 0;
    return NOISE(draw)(room, s->first + t->start + at, b->count, t->seed, s->ordinal, s->step,
                       t->draws);
}

/* The normals of the slacks. */
TARGET static const float *NAME(slack_noise)(const NAME(Rows) *t, float *room) {
    const Segment *s = t->task->segments + t->item;
    return NOISE(draw)(room, t->start / t->length, t->count, t->seed, s->ordinal, s->step,
                       t->draws + 1);
}

/* P ← decay · P + V with V = weight · G + scale · R; sums are those of w · V. */
TARGET static void NAME(push_rows)(const NAME(Rows) *t, const double *x, double *sums) {
    REAL force[LONGEST];
    float room[LONGEST + 2 * CHUNK];
    NAME(Block) b;
    const REAL decay = (REAL)x[0], weight = (REAL)x[1], scale = (REAL)x[2];
    for (int64_t at = 0; at < t->length * t->count; at += LONGEST) {
        const float *noise = NAME(piece)(t, &b, at, weight != 0, scale != 0, force, room);
        if (weight != 0) LOOP(i, b.count) force[i] = b.gradient[i] * weight;
        else LOOP(i, b.count) force[i] = 0;
        if (noise) LOOP(i, b.count) force[i] = FMA((REAL)noise[i], scale, force[i]);
        LOOP(i, b.count) b.momentum[i] = FMA(b.momentum[i], decay, force[i]);
        if (t->length > LONGEST) sums[0] += NAME(dot)(b.position, force, b.count);
        else for (int64_t r = 0; r < t->count; r++)
            sums[r] = NAME(dot)(b.position + r * t->length, force + r * t->length, t->length);
    }
}

/* w̄ = w - hG + scale · R; sums are those of w̄ · w̄. */
TARGET static void NAME(propose)(const NAME(Rows) *t, REAL step, REAL scale, double *sums) {
    REAL force[LONGEST];
    float room[LONGEST + 2 * CHUNK];
    NAME(Block) b;
    const REAL limit = t->limit;
    for (int64_t at = 0; at < t->length * t->count; at += LONGEST) {
        const float *noise = NAME(piece)(t, &b, at, 1, scale != 0, force, room);
        if (noise) LOOP(i, b.count) {
            const REAL x = FMA(b.gradient[i], -step, b.position[i]);
            b.position[i] = NAME(tamed)(FMA((REAL)noise[i], scale, x), limit);
        } else LOOP(i, b.count) {
            const REAL x = FMA(b.gradient[i], -step, b.position[i]);
            b.position[i] = NAME(tamed)(x, limit);
        }
        if (t->length > LONGEST) sums[0] += NAME(dot)(b.position, b.position, b.count);
        else for (int64_t r = 0; r < t->count; r++) {
            const REAL *row = b.position + r * t->length;
            sums[r] = NAME(dot)(row, row, t->length);
        }
    }
}

/* --- the second half: rows one by one ---------------------------------------------------------- */

/* Q̄ over its length, whose square is known, times r: the factor of w. A slack of less than
 * √eps · r could not grow again. */
TARGET INLINE REAL NAME(scaled)(const NAME(Rows) *t, int64_t r, double square, REAL slack) {
    const REAL radius = NAME(radius_of)(t, r), least = radius * LEAST;
    if (!t->slack) return radius / SQRT((REAL)square);
    const REAL scale = radius / SQRT((REAL)(square + (double)slack * slack)), new = slack * scale;
    t->slack[r] = ABS(new) < least ? COPYSIGN(least, new) : new;
    return scale;
}

/* Take the part along the normal from a momentum, of which the row's sum is known. */
TARGET static void NAME(project_row)(const NAME(Rows) *t, int64_t r, double dot, const double *x,
                                     const float *noise) {
    const REAL radius = NAME(radius_of)(t, r), change = noise ? (REAL)noise[r] * (REAL)x[2] : 0;
    if (noise) dot += (double)t->slack[r] * change;
    const REAL along = (REAL)dot / (radius * radius);
    const REAL *w = t->position + r * t->length;
    REAL *p = t->momentum + r * t->length;
    LOOP(i, t->length) p[i] = FMA(w[i], -along, p[i]);
    if (t->slack)
        t->slack_momentum[r] =
            FMA(t->slack_momentum[r], (REAL)x[0], FMA(t->slack[r], -along, change));
}

/* sin x / x and cos x. */
TARGET INLINE REAL NAME(sinc)(REAL x, REAL *cosine) {
    const REAL angle = NAME(turned)(0, x, 1);
    *cosine = NAME(cosine)(angle, 1);
    const REAL size = ABS(angle), rest = (PI - size) + PI_REST;
    const REAL sine = NAME(sine)(rest < size ? rest : size, 1);
    return x == 0 ? 1 : COPYSIGN(sine, angle) / x;
}

/* A great circle: w' = (cw + sp)/length with c = cos a, s = h sin a / a and a = h|p|/r, and its
 * derivative p' = cp - uw, u = s|p|²/r², less what is not tangent. The products at the start give
 * those at the end. */
TARGET static void NAME(turn_row)(const NAME(Rows) *t, int64_t r, REAL step) {
    const int64_t n = t->length;
    const REAL radius = NAME(radius_of)(t, r), limit = t->limit;
    REAL *w = t->position + r * n, *p = t->momentum + r * n, cosine, slack = 0, push = 0;
    double sums[3] = {0, 0, 0};
    for (int64_t at = 0; at < n; at += LONGEST) {
        const int64_t count = n - at < LONGEST ? n - at : LONGEST;
        REAL *const x = w + at, *const y = p + at;
        LOOP(i, count) y[i] = NAME(tamed)(y[i], limit);
        sums[0] += NAME(dot)(x, x, count);
        sums[1] += NAME(dot)(x, y, count);
        sums[2] += NAME(dot)(y, y, count);
    }
    if (t->slack) slack = t->slack[r], push = NAME(tamed)(t->slack_momentum[r], limit);
    const REAL ww = (REAL)sums[0], wp = (REAL)sums[1], pp = (REAL)sums[2];
    const REAL speed = SQRT(FMA(push, push, pp));
    const REAL reach = NAME(sinc)(speed * step / radius, &cosine) * step;
    const REAL ratio = speed / radius, pull = reach * (ratio * ratio);
    const REAL square = FMA(cosine * cosine, ww, FMA(2 * cosine * reach, wp, reach * reach * pp));
    const REAL scale = NAME(scaled)(t, r, square, FMA(cosine, slack, reach * push));
    const REAL mixed = FMA(cosine, cosine, -(reach * pull));
    REAL dot = scale * FMA(cosine * reach, pp, FMA(-(cosine * pull), ww, mixed * wp));
    if (t->slack) {
        push = FMA(cosine, push, -(pull * slack));
        dot = FMA(t->slack[r], push, dot);
    }
    const REAL along = dot / (radius * radius), kept = scale * cosine, far = scale * reach;
    LOOP(i, n) {
        const REAL old = w[i], new = FMA(p[i], far, old * kept);
        p[i] = FMA(new, -along, FMA(p[i], cosine, -(old * pull)));
        w[i] = new;
    }
    if (t->slack) t->slack_momentum[r] = FMA(t->slack[r], -along, push);
}

/* --- actions ---------------------------------------------------------------------------------- */

TARGET static void NAME(move_rows)(NAME(Rows) *t, int64_t kind, const double *x) {
    double sums[LONGEST];
    float room[LONGEST + 2 * CHUNK];
    if (kind == DRIFT) {
        for (int64_t r = 0; r < t->count; r++) NAME(turn_row)(t, r, (REAL)x[0]);
        return;
    }
    const double scale = kind == IMPULSE ? x[2] : x[1];
    const float *noise = t->slack && scale != 0 ? NAME(slack_noise)(t, room) : 0;
    sums[0] = 0;
    if (kind == IMPULSE) {
        NAME(push_rows)(t, x, sums);
        for (int64_t r = 0; r < t->count; r++) NAME(project_row)(t, r, sums[r], x, noise);
    } else {
        NAME(propose)(t, (REAL)x[0], (REAL)scale, sums);
        for (int64_t r = 0; r < t->count; r++) {
            const REAL moved = noise ? (REAL)noise[r] * (REAL)scale : 0;
            const REAL slack = t->slack ? t->slack[r] + moved : 0;
            const REAL factor = NAME(scaled)(t, r, sums[r], slack);
            REAL *w = t->position + r * t->length;
            LOOP(i, t->length) w[i] *= factor;
        }
    }
    if (scale != 0) t->draws += t->slack ? 2 : 1;
}

TARGET static void NAME(rows)(const Task *task, int64_t item, int64_t member, int64_t start,
                              int64_t count) {
    const Segment *s = task->segments + item;
    const double *row = task->numbers + (s->row + member) * task->width;
    const int64_t at = member * s->size + start, before = at / s->length;
#define AT(field, place) ((REAL *)(intptr_t)s->field + (s->field ? (place) : 0))
    NAME(Rows) t = {
        .task = task, .item = item, .member = member, .start = start,
        .length = s->length, .count = count / s->length, .draws = s->draw,
        .seed = ((const int64_t *)(intptr_t)s->seeds)[member],
        .position = AT(position, at), .momentum = AT(momentum, at),
        .slack = AT(slack, before), .slack_momentum = AT(slack_momentum, before),
        .radii = AT(radius, before), .radius = (REAL)row[1],
        .limit = IS_DOUBLE ? (REAL)1e150 : (REAL)1e15f,
    };
#undef AT
    for (int64_t a = 0; a < task->n_actions; a++)
        NAME(move_rows)(&t, task->kinds[a], row + HEAD + 3 * a);
}
#undef WIDE
#undef LONGEST
