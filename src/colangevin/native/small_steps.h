/* Small steps on circles of one radius, in float32, by vectors that are written out.
 *
 * Nearly all steps of a training are small. Where all of a piece are, nothing is left of the loops
 * in step.h but their series, with the same bits: no division, and a step takes little longer than
 * its memory.
 */
#include "lanes.h"
#undef PIECE
#define PIECE 256 /* numbers: so few that the hardware fetches what comes next in both loops */

/* ω by the gradient, as ``push`` has it; returns whether no |ω| is above the limit. */
TARGET INLINE int NAME(push_piece)(const NAME(Block) *b, const float *noise, NAME(Push) k,
                                   int decays, float limit) {
    const V decay = V_ALL(k.decay), weight = V_ALL(b->circle.square * k.weight),
            scale = V_ALL(b->circle.inverse * k.scale), rate = V_ALL(k.rate);
    BITS fast = B_ALL(0);
    for (int64_t i = 0; i < b->count; i += LANES) {
        V g = V_LOAD(b->gradient + i);
        if (decays) g = V_FMA(V_LOAD(b->position + i), rate, g);
        const V force = V_MUL(g, V_LOAD(b->slack + i));
        V change = noise ? V_FMA(force, weight, V_MUL(V_LOAD(noise + i), scale))
                         : V_MUL(force, weight);
        change = V_FMA(V_LOAD(b->momentum + i), decay, change);
        V_STORE(b->momentum + i, change);
        fast = B_MAX(fast, SIZE_BITS(V_BITS(change)));
    }
    return !ANY_ABOVE(fast, NAME(bits)(limit));
}

TARGET INLINE int NAME(is_slow)(const NAME(Block) *b, float limit) {
    BITS fast = B_ALL(0);
    for (int64_t i = 0; i < b->count; i += LANES)
        fast = B_MAX(fast, SIZE_BITS(V_BITS(V_LOAD(b->momentum + i))));
    return !ANY_ABOVE(fast, NAME(bits)(limit));
}

/* As ``rotate``, for small turns. */
TARGET INLINE void NAME(turn_piece)(const NAME(Block) *b, NAME(Turn) k) {
    const V one = V_ALL(1.0f), half = V_ALL(0.5f), second = V_ALL(SECOND), third = V_ALL(THIRD),
            fourth = V_ALL(FOURTH), fifth = V_ALL(FIFTH), sixth = V_ALL(SIXTH),
            time = V_ALL(k.time), unit = V_ALL(b->circle.square * -0.5f),
            least = V_ALL(b->circle.least), most = V_ALL(b->circle.most);
    BITS off = B_ALL(0), slack = V_BITS(V_ALL(INFINITY));
    for (int64_t i = 0; i < b->count; i += LANES) {
        const V x = V_LOAD(b->position + i), y = V_LOAD(b->slack + i);
        const V a = V_MUL(V_LOAD(b->momentum + i), time), z = V_MUL(a, a);
        const V length = V_FMA(y, y, V_MUL(x, x));
        const V bounded = V_MAX(least, V_MIN(most, length)); /* NaN stays what it is */
        const V e = V_FMA(bounded, unit, half);
        const V along = V_FMA(z, V_FMA(z, V_FMA(z, sixth, fourth), second), e);
        const V across = V_MUL(a, V_FMA(z, V_FMA(z, fifth, third), one));
        const V other = V_FMS(across, x, V_FMA(along, y, y));
        V_STORE(b->position + i, V_FMA(across, y, V_FMA(along, x, x)));
        V_STORE(b->slack + i, other);
        off = B_OR(off, V_BITS(V_SUB(length, bounded)));
        slack = B_MIN(slack, SIZE_BITS(V_BITS(other)));
    }
    const int far = ANY_ABOVE(SIZE_BITS(off), 0);
    const int near = ANY_BELOW(slack, NAME(bits)(b->circle.floor * NEAR));
    if (far || near) NAME(tidy)(b, (NAME(Seen)){far, near ? 0 : INT32_MAX});
}

/* θ - hG; returns whether δ is small for all. */
TARGET INLINE int NAME(propose_piece)(const NAME(Block) *b, float h) {
    const V step = V_ALL(-h), unit = V_ALL(b->circle.square), minus = V_ALL(-1.0f);
    BITS off = B_ALL(0);
    for (int64_t i = 0; i < b->count; i += LANES) {
        const V x = V_FMA(V_LOAD(b->gradient + i), step, V_LOAD(b->position + i));
        const V y = V_LOAD(b->slack + i);
        const V d = V_FMA(V_FMA(y, y, V_MUL(x, x)), unit, minus);
        V_STORE(b->position + i, x);
        off = B_MAX(off, SIZE_BITS(V_BITS(d)));
    }
    return !ANY_ABOVE(off, NAME(bits)(NEARLY));
}

/* As ``project``, for small δ. */
TARGET INLINE void NAME(project_piece)(const NAME(Block) *b) {
    const V unit = V_ALL(b->circle.square), one = V_ALL(1.0f), minus = V_ALL(-1.0f),
            first = V_ALL(-0.5f), second = V_ALL(0.375f), third = V_ALL(-0.3125f);
    BITS slack = V_BITS(V_ALL(INFINITY));
    for (int64_t i = 0; i < b->count; i += LANES) {
        const V x = V_LOAD(b->position + i), y = V_LOAD(b->slack + i);
        const V d = V_FMA(V_FMA(y, y, V_MUL(x, x)), unit, minus);
        const V factor = V_FMA(d, V_FMA(d, V_FMA(d, third, second), first), one);
        const V other = V_MUL(y, factor);
        V_STORE(b->position + i, V_MUL(x, factor));
        V_STORE(b->slack + i, other);
        slack = B_MIN(slack, SIZE_BITS(V_BITS(other)));
    }
    if (ANY_BELOW(slack, NAME(bits)(b->circle.floor * NEAR)))
        NAME(tidy)(b, (NAME(Seen)){0, 0});
}

TARGET INLINE NAME(Block) NAME(piece)(const NAME(Block) *b, int64_t start) {
    NAME(Block) part = *b;
    part.position += start, part.slack += start;
    if (part.momentum) part.momentum += start;
    if (part.gradient) part.gradient += start;
    part.count = b->count - start < PIECE ? b->count - start : PIECE;
    return part;
}

/* --- pieces: one that does not fill its vectors goes the way of large steps ----------------- */

TARGET INLINE void NAME(pair_in_pieces)(const NAME(Block) *whole, const float *noise,
                                        NAME(Push) push, NAME(Turn) turn, int decays) {
    for (int64_t start = 0; start < whole->count; start += PIECE) {
        const NAME(Block) b = NAME(piece)(whole, start);
        const float *own = noise ? noise + start : 0;
        if (b.count % LANES) NAME(circle_loop)(&b, own, push, turn, decays);
        else if (NAME(push_piece)(&b, own, push, decays, turn.small)) NAME(turn_piece)(&b, turn);
        else NAME(rotate_loop)(&b, turn, 0);
    }
}

TARGET INLINE void NAME(drift_in_pieces)(const NAME(Block) *whole, NAME(Turn) turn) {
    for (int64_t start = 0; start < whole->count; start += PIECE) {
        const NAME(Block) b = NAME(piece)(whole, start);
        if (b.count % LANES == 0 && NAME(is_slow)(&b, turn.small)) NAME(turn_piece)(&b, turn);
        else NAME(rotate_loop)(&b, turn, 0);
    }
}

TARGET INLINE void NAME(overdamped_in_pieces)(const NAME(Block) *whole, float step) {
    for (int64_t start = 0; start < whole->count; start += PIECE) {
        const NAME(Block) b = NAME(piece)(whole, start);
        if (b.count % LANES) NAME(overdamped_loop)(&b, 0, 0, step, 0, 1, 0);
        else if (NAME(propose_piece)(&b, step)) NAME(project_piece)(&b);
        else LOOP(i, b.count) NAME(project)(b.position + i, b.slack + i, b.circle);
    }
}
