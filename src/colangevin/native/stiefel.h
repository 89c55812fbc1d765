/* Langevin steps of small matrices with orthonormal columns (or rows), for one dtype.
 *
 * A matrix is moved in scratch memory that stays in the cache, and written back if every
 * projection has succeeded. There it has the layout of its memory, with zeros around it, so that
 * all products are made of whole tiles. A tall matrix Q is r × s; a wide one is Qᵀ, s × r.
 */
#define NAME(f) NAMED(f, VARIANT, SUFFIX)
#define NOISE(f) NAMED(f, VARIANT, noise)
#define LANES ((int64_t)(VECTOR / sizeof(REAL)))
#define UNIT (LANES > HEIGHT ? LANES : HEIGHT)

typedef REAL NAME(Vector) __attribute__((vector_size(VECTOR), aligned(sizeof(REAL)), may_alias));

/* Sides of a matrix with their zeros, and where its parts lie. */
typedef struct {
    int64_t rows, columns;    /* of its memory */
    int64_t lines, width;     /* of its scratch */
    int64_t small, tall;      /* s with zeros, r */
    int wide;
    REAL *position, *momentum, *force, *proposal, *upright; /* of the matrix' size */
    REAL *gram, *overlap, *multiplier, *factor, *mixed;     /* s × s */
    float *noise;
    double scale, tolerance;
    int64_t max_iterations, iterations; /* limit, and the most that were needed */
} NAME(Room);

/* --- products ------------------------------------------------------------------------------ */

/* HEIGHT rows of C = base + factor · Σ_k A_ik B_k, of one vector or two; C may be the base. */
TARGET INLINE void NAME(tile)(int two, int64_t depth, const REAL *a, int64_t row, int64_t next,
                              const REAL *b, const REAL *base, REAL *c, int64_t stride,
                              REAL factor) {
    NAME(Vector) left[HEIGHT], right[HEIGHT];
    _Pragma("GCC unroll 8") for (int i = 0; i < HEIGHT; i++) left[i] = right[i] =
        (NAME(Vector)){0};
    for (int64_t k = 0; k < depth; k++) {
        const NAME(Vector) x = *(const NAME(Vector) *)(b + k * stride);
        const NAME(Vector) y = *(const NAME(Vector) *)(b + k * stride + (two ? LANES : 0));
        _Pragma("GCC unroll 8") for (int i = 0; i < HEIGHT; i++) {
            const REAL value = a[i * row + k * next];
            left[i] += value * x;
            if (two) right[i] += value * y;
        }
    }
    _Pragma("GCC unroll 8") for (int i = 0; i < HEIGHT; i++) {
        const REAL *from = base + i * stride;
        NAME(Vector) *to = (NAME(Vector) *)(c + i * stride);
        *to = base ? *(const NAME(Vector) *)from + left[i] * factor : left[i] * factor;
        if (!two) continue;
        from += LANES;
        to = (NAME(Vector) *)(c + i * stride + LANES);
        *to = base ? *(const NAME(Vector) *)from + right[i] * factor : right[i] * factor;
    }
}

/* C = base + factor · A B for A of rows × depth, with A_ik = a[i·row + k·next], where one of the
 * two steps is 1; B and C have ``width`` columns. Of a symmetric C only what is on or right of the diagonal is needed. */
TARGET static void NAME(product)(int64_t rows, int64_t width, int64_t depth, const REAL *a,
                                 int64_t row, int64_t next, const REAL *b, const REAL *base,
                                 REAL *c, REAL factor, int symmetric) {
#define TILE(two, row, next)                                                                  \
    NAME(tile)(two, depth, a + i * row, row, next, b + j, from, c + i * width + j, width, factor)
    const int64_t across = symmetric ? LANES : 2 * LANES;
    for (int64_t j = 0; j < width; j += across) {
        const int two = !symmetric && width - j >= 2 * LANES;
        const int64_t stop = symmetric && j + across < rows ? j + across : rows;
        for (int64_t i = 0; i < stop; i += HEIGHT) {
            const REAL *from = base ? base + i * width + j : 0;
            /* Steps of 1 are known to the compiler: then an address is a constant away. */
            if (row == 1) {
                if (two) TILE(1, 1, next);
                else TILE(0, 1, next);
            } else if (two) TILE(1, row, 1);
            else TILE(0, row, 1);
        }
    }
#undef TILE
}

/* --- the multiplier ------------------------------------------------------------------------- */

/* M = Q̄ᵀQ̄ / scale² - I and S = QᵀQ̄ / scale²; whether an entry of the first is beyond 2. */
TARGET static int NAME(overlaps)(const NAME(Room) *m) {
    const int64_t n = m->small;
    const REAL factor = (REAL)(1.0 / (m->scale * m->scale));
    const REAL *upright = m->wide ? m->upright : m->proposal;
    const int64_t row = m->wide ? m->width : 1, next = m->wide ? 1 : m->width;
    int far = 0;
    if (m->wide)
        for (int64_t i = 0; i < m->lines; i++)
            for (int64_t k = 0; k < m->tall; k++)
                m->upright[k * n + i] = m->proposal[i * m->width + k];
    NAME(product)(n, n, m->tall, m->proposal, row, next, upright, 0, m->gram, factor, 1);
    NAME(product)(n, n, m->tall, m->position, row, next, upright, 0, m->overlap, factor, 0);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) m->gram[i * n + j] = m->gram[j * n + i];
        far |= m->gram[i * n + i] > (REAL)2;
        if (i < (m->wide ? m->rows : m->columns)) m->gram[i * n + i] -= (REAL)1;
    }
    return far;
}

/* X ← X + Xᵀ. */
TARGET static void NAME(add_transpose)(REAL *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const REAL total = x[i * n + j] + x[j * n + i];
            x[i * n + j] = total;
            x[j * n + i] = total;
        }
}

/* (Q̄ - QΛ)ᵀ(Q̄ - QΛ) = scale² I for a symmetric Λ: L ← L + ½(M - LS - SᵀL + LL - I). */
TARGET static int NAME(solve)(NAME(Room) *m) {
    const int64_t n = m->small, sides = m->wide ? m->rows : m->columns;
    const int far = NAME(overlaps)(m);
    REAL *l = m->multiplier, *x = m->mixed, error = 0;
    LOOP(i, n * n) l[i] = m->overlap[i] * (REAL)0.5;
    NAME(add_transpose)(l, n);
    for (int64_t i = 0; i < sides; i++) l[i * n + i] -= (REAL)1;
    for (int64_t k = 0; k < m->max_iterations; k++) {
        /* Twice the residual is X + Xᵀ with X = M - I + L(L - 2S): one product. */
        LOOP(i, n * n) m->factor[i] = FMA(m->overlap[i], (REAL)-2, l[i]);
        NAME(product)(n, n, n, l, 1, n, m->factor, m->gram, x, (REAL)1, 0);
        NAME(add_transpose)(x, n);
        int above = 0, beyond = 0;
        const REAL limit = (REAL)(2.0 * m->tolerance);
        const REAL reach = limit > 8 * EPSILON ? limit : (REAL)(8 * EPSILON);
        _Pragma("omp simd reduction(| : above, beyond)") for (int64_t i = 0; i < n * n; i++) {
            above |= !(ABS(x[i]) <= limit);
            beyond |= !(ABS(x[i]) <= reach);
            l[i] = FMA(x[i], (REAL)0.25, l[i]);
        }
        if (k >= m->iterations) m->iterations = k + 1;
        error = (REAL)beyond;
        if (!above) break;
    }
    return error != 0 ? FAILED : far ? FAR : DONE;
}

/* C = base - factor · QΛ; Λ is symmetric. */
TARGET static void NAME(along_normals)(const NAME(Room) *m, const REAL *base, REAL *c,
                                       REAL factor) {
    const int64_t n = m->small;
    if (m->wide)
        NAME(product)(n, m->width, n, m->multiplier, 1, n, m->position, base, c, -factor, 0);
    else
        NAME(product)(m->lines, n, n, m->position, n, 1, m->multiplier, base, c, -factor, 0);
}

/* --- actions --------------------------------------------------------------------------------- */

/* C = decay · A + weight · B + scale · R, where each part but the first may be missing. */
TARGET static void NAME(combine)(const NAME(Room) *m, REAL *c, const REAL *a, REAL decay,
                                 const REAL *b, REAL weight, const float *noise, REAL scale) {
    const int64_t all = m->lines * m->width;
    if (weight != 0) LOOP(i, all) c[i] = FMA(a[i], decay, b[i] * weight);
    else LOOP(i, all) c[i] = a[i] * decay;
    if (!noise) return;
    for (int64_t line = 0; line < m->rows; line++) {
        REAL *to = c + line * m->width;
        const float *from = noise + line * m->columns;
        LOOP(i, m->columns) to[i] = FMA((REAL)from[i], scale, to[i]);
    }
}

/* Q' = Q + hP - QΛ, P ← P - QΛ/h, as P ← P - QΛ/h, Q ← Q + hP. */
TARGET static int NAME(walk)(NAME(Room) *m, REAL step) {
    NAME(combine)(m, m->proposal, m->position, 1, m->momentum, step, 0, 0);
    const int outcome = NAME(solve)(m);
    if (outcome != DONE) return outcome;
    NAME(along_normals)(m, m->momentum, m->momentum, (REAL)1 / step);
    NAME(combine)(m, m->position, m->position, 1, m->momentum, step, 0, 0);
    return outcome;
}

/* Q' = Q - hG + scale · R - QΛ. */
TARGET static int NAME(project)(NAME(Room) *m, REAL step, const float *noise, REAL scale) {
    NAME(combine)(m, m->proposal, m->position, 1, m->force, -step, noise, scale);
    const int outcome = NAME(solve)(m);
    if (outcome != DONE) return outcome;
    NAME(along_normals)(m, m->proposal, m->proposal, 1);
    memcpy(m->position, m->proposal, (size_t)(m->lines * m->width) * sizeof(REAL));
    return outcome;
}

/* --- one matrix ------------------------------------------------------------------------------ */

static int64_t NAME(up)(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

/* Lay out the scratch of a matrix from ``memory`` on; the bytes that it takes. */
static int64_t NAME(lay_out)(NAME(Room) *m, const Stack *s, char *memory) {
    m->rows = s->rows;
    m->columns = s->columns;
    m->wide = s->rows < s->columns;
    m->tall = m->wide ? s->columns : s->rows;
    m->small = NAME(up)(m->wide ? s->rows : s->columns, UNIT);
    m->lines = m->wide ? m->small : NAME(up)(s->rows, HEIGHT);
    m->width = m->wide ? NAME(up)(s->columns, LANES) : m->small;
    char *const begin = memory;
    REAL **const big[] = {&m->position, &m->momentum, &m->force, &m->proposal, &m->upright};
    REAL **const little[] = {&m->gram, &m->overlap, &m->multiplier, &m->factor, &m->mixed};
    const int64_t apart = 64; /* so that no two of them are a multiple of a page apart */
    for (int i = 0; i < 5; i++, memory += m->lines * m->width * (int64_t)sizeof(REAL) + apart)
        *big[i] = (REAL *)memory;
    for (int i = 0; i < 5; i++, memory += m->small * m->small * (int64_t)sizeof(REAL) + apart)
        *little[i] = (REAL *)memory;
    m->noise = (float *)memory;
    return memory - begin + (m->rows * m->columns + 2 * CHUNK) * (int64_t)sizeof(float) + apart;
}

static int64_t NAME(room_bytes)(const Stack *s) {
    NAME(Room) m;
    return NAME(lay_out)(&m, s, 0);
}

TARGET static void NAME(read)(const NAME(Room) *m, REAL *to, const REAL *from) {
    const size_t line = (size_t)m->columns * sizeof(REAL);
    const size_t rest = (size_t)m->width * sizeof(REAL) - line;
    for (int64_t i = 0; i < m->rows; i++) {
        memcpy(to + i * m->width, from + i * m->columns, line);
        if (rest) memset(to + i * m->width + m->columns, 0, rest);
    }
    memset(to + m->rows * m->width, 0, (size_t)((m->lines - m->rows) * m->width) * sizeof(REAL));
}

TARGET static void NAME(write)(const NAME(Room) *m, REAL *to, const REAL *from) {
    for (int64_t i = 0; i < m->rows; i++)
        memcpy(to + i * m->columns, from + i * m->width, (size_t)m->columns * sizeof(REAL));
}

TARGET static int NAME(act)(NAME(Room) *m, const Moves *moves, const Stack *s, int64_t at,
                            const double *x) {
    int64_t draws = s->draw;
    int outcome = DONE;
#define DRAW()                                                                                \
    NOISE(draw)(m->noise, s->first + at, m->rows *m->columns, s->seed, s->ordinal, s->step,   \
                draws++)
    for (int64_t a = 0; a < moves->n_actions && outcome == DONE; a++, x += 3) {
        if (moves->kinds[a] == IMPULSE) {
            const float *noise = x[2] != 0 ? DRAW() : 0;
            NAME(combine)(m, m->momentum, m->momentum, (REAL)x[0], m->force, (REAL)x[1], noise,
                          (REAL)x[2]);
        } else if (moves->kinds[a] == DRIFT) {
            outcome = NAME(walk)(m, (REAL)x[0]);
        } else {
            const float *noise = x[1] != 0 ? DRAW() : 0;
            outcome = NAME(project)(m, (REAL)x[0], noise, (REAL)x[1]);
        }
    }
#undef DRAW
    return outcome;
}

/* All actions on matrix number ``index`` of a stack; it is written to only if none has failed. */
TARGET static void NAME(matrix)(const Moves *moves, const Stack *s, int64_t index, char *memory) {
    NAME(Room) m;
    NAME(lay_out)(&m, s, memory);
    const double *row = moves->numbers + s->row * moves->width;
    const int64_t at = index * s->rows * s->columns;
    REAL *position = (REAL *)(intptr_t)s->position + at;
    REAL *momentum = s->momentum ? (REAL *)(intptr_t)s->momentum + at : 0;
    m.scale = row[1];
    m.tolerance = row[2];
    m.max_iterations = (int64_t)row[3];
    m.iterations = 0;
    NAME(read)(&m, m.position, position);
    if (momentum) NAME(read)(&m, m.momentum, momentum);
    NAME(read)(&m, m.force, (const REAL *)(intptr_t)s->gradient + at);
    if (row[0] != 0) NAME(combine)(&m, m.force, m.force, 1, m.position, (REAL)row[0], 0, 0);
    const int outcome = NAME(act)(&m, moves, s, at, row + 4);
    if (outcome == DONE) {
        NAME(write)(&m, position, m.position);
        if (momentum) NAME(write)(&m, momentum, m.momentum);
    }
    int64_t *result = (int64_t *)(intptr_t)s->result + 2 * index;
    result[0] = m.iterations;
    result[1] = outcome;
}

#undef NAME
#undef NOISE
#undef LANES
#undef UNIT
