/* What a block of weights is moved by: its gradient, or what a direction makes of it.
 *
 * Gradients, moments and weights are passed once, in the block where the step itself is made.
 */

/* G' = G + weight decay · θ, with θ as it is before the first action. */
TARGET static void NAME(decay)(NAME(Block) *b, REAL *room, REAL rate) {
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


/* (1 - share) · from + share · to, exact at both ends. */
TARGET INLINE REAL NAME(between)(REAL from, REAL to, REAL share) {
    const REAL gap = to - from;
    return share < (REAL)0.5 ? FMA(gap, share, from) : FMA(gap, share - 1, to);
}

/* m ← β₁m + (1 - β₁)G, s ← β₂s + (1 - β₂)G², u = m̂ / (√ŝ + ε). */
TARGET static void NAME(adam)(NAME(Block) *b, REAL *room, const double *factors) {
    const REAL first = (REAL)(1 - factors[0]), kept = (REAL)factors[1];
    const REAL second = (REAL)(1 - factors[1]), least = (REAL)factors[2];
    const REAL up = (REAL)factors[3], root = (REAL)factors[4];
    LOOP(i, b->count) {
        const REAL g = b->gradient[i], mean = NAME(between)(b->mean[i], g, first);
        const REAL square = FMA(g * g, second, b->square[i] * kept);
        b->mean[i] = mean;
        b->square[i] = square;
        room[i] = mean * up / FMA(SQRT(square), root, least);
    }
    b->gradient = room;
}

/* u = sign(β₁m + (1 - β₁)G), then m ← β₂m + (1 - β₂)G. */
TARGET static void NAME(sign)(NAME(Block) *b, REAL *room, const double *factors) {
    const REAL first = (REAL)(1 - factors[0]), second = (REAL)(1 - factors[1]);
    LOOP(i, b->count) {
        const REAL g = b->gradient[i], mean = b->mean[i];
        const REAL along = NAME(between)(mean, g, first);
        b->mean[i] = NAME(between)(mean, g, second);
        room[i] = along == 0 ? 0 : along != along ? along : COPYSIGN((REAL)1, along);
    }
    b->gradient = room;
}

/* Let a block have its force in the place of the gradient; ``start`` is within the member. */
TARGET static void NAME(force)(NAME(Block) *b, REAL *room, const Task *task, int64_t item,
                               int64_t member, int64_t start) {
    const Segment *s = task->segments + item;
    const double *row = task->numbers + (s->row + member) * task->width;
    if (s->columns) NAME(turn_gradient)(b, room, s, member, start);
    if (row[2] != 0) NAME(decay)(b, room, (REAL)row[2]);
    if (task->direction == ADAM) NAME(adam)(b, room, task->factors + FACTORS * item);
    if (task->direction == SIGN) NAME(sign)(b, room, task->factors + FACTORS * item);
    if (row[0] != 0) NAME(decay)(b, room, (REAL)row[0]);
}
