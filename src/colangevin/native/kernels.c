/* Elementwise Langevin steps and counter normals.
 *
 * A step is a list of actions on a list of segments (flat, contiguous pieces of parameters).
 * A segment is cut into blocks that stay in the first cache; all actions, and their noise, are
 * done on one block before the next. So main memory is passed once, whatever the actions are.
 *
 * Every operation on a number is written out (fused multiply-adds too), and every one of them
 * is rounded correctly. Hence vectors, their remainders and any number of threads give the
 * same bits.
 */
#include "common.h"

enum { FREE = 0, CIRCLE = 1, SPHERE = 2 };
enum { GRADIENT = 0, ADAM = 1, SIGN = 2 };
enum {
    BYTES = 2048, /* of one tensor in a block: a few fit into the first cache */
    LARGEST = BYTES / 4,
    THREADED = 1 << 15 /* numbers from which on threads are worth waking */
};

enum { HEAD = 3, FACTORS = 5 };

/* One row of the table that Python keeps. The parameters of an ensemble's members lie one after
 * the other, each with its seed and its row of numbers; ``size`` is that of one of them. If
 * ``columns`` is not 0 it is their number, and the gradient has one column after the other. The
 * rows of a sphere have ``length`` numbers. ``mean`` and ``square`` are kept by a direction. */
typedef struct {
    int64_t position, momentum, slack, gradient, radius, size, first, seeds, ordinal, step, draw,
        row, members, columns, length, slack_momentum, mean, square;
} Segment;

typedef struct {
    int64_t out, size, first, seed, ordinal, step, draw;
} Fill;

typedef struct Task Task;
struct Task {
    void (*block)(const Task *, int64_t item, int64_t member, int64_t start, int64_t count);
    int64_t (*size)(const Task *, int64_t item, int64_t *members, int64_t *length);
    int64_t items, length; /* of how many numbers a block is, or at most if it has whole rows */
    int64_t geometry, n_actions, width, direction, total;
    const Segment *segments;
    const Fill *fills;
    const int64_t *kinds;
    const double *numbers; /* rows of weight decay, radius, what a direction sees of it, actions */
    const double *factors; /* of the direction, for each segment: β₁, β₂, ε, corrections of both */
};

#define BODY "elementwise.h"
#include "variants.h"

/* --- threads ------------------------------------------------------------------------------- */

/* The blocks that begin within the share [part, part + 1) / parts of all numbers. */
static void share(const Task *task, int64_t part, int64_t parts) {
    const int64_t low = task->total / parts * part + task->total % parts * part / parts;
    const int64_t high =
        task->total / parts * (part + 1) + task->total % parts * (part + 1) / parts;
    int64_t before = 0, members, length;
    for (int64_t item = 0; item < task->items && before < high; item++) {
        const int64_t size = task->size(task, item, &members, &length);
        int64_t member = size && low > before ? (low - before) / size : 0;
        if (member > members) member = members;
        for (before += member * size; member < members && before < high; member++) {
            int64_t start = low > before ? (low - before + length - 1) / length * length : 0;
            for (; start < size && before + start < high; start += length)
                task->block(task, item, member, start,
                            size - start < length ? size - start : length);
            before += size;
        }
        before += (members - member) * size;
    }
}

static void work(void *task) { share(task, thread_number(), thread_count()); }

static void run(Task *task, int64_t threads) {
    int64_t members, length;
    task->total = 0;
    for (int64_t item = 0; item < task->items; item++) {
        const int64_t size = task->size(task, item, &members, &length);
        task->total += size * members;
    }
    if (threads > 1 && parallel && task->total >= THREADED)
        parallel(work, task, (unsigned)threads, 0);
    else
        share(task, 0, 1);
}

static int64_t segment_size(const Task *task, int64_t item, int64_t *members,
                            int64_t *length) {
    const Segment *s = task->segments + item;
    *members = s->members;
    *length = task->length;
    if (task->geometry == SPHERE)
        *length = s->length > task->length ? s->length : task->length / s->length * s->length;
    return s->size;
}

static int64_t fill_size(const Task *task, int64_t item, int64_t *members, int64_t *length) {
    *members = 1;
    *length = task->length;
    return task->fills[item].size;
}

/* --- what Python calls --------------------------------------------------------------------- */

void cola_step(int64_t dtype, int64_t geometry, int64_t n_segments, const int64_t *segments,
               int64_t n_actions, const int64_t *kinds, const double *numbers, int64_t width,
               int64_t direction, const double *factors, int64_t threads) {
    Task task = {
        .block = geometry == SPHERE ? CHOOSE(rows, dtype) : CHOOSE(step, dtype),
        .size = segment_size,
        .items = n_segments,
        .length = BYTES / (dtype ? sizeof(double) : sizeof(float)),
        .geometry = geometry,
        .n_actions = n_actions,
        .width = width,
        .segments = (const Segment *)segments,
        .direction = direction,
        .kinds = kinds,
        .numbers = numbers,
        .factors = factors,
    };
    run(&task, threads);
}

void cola_normals(int64_t dtype, int64_t n_jobs, const int64_t *jobs, int64_t threads) {
    Task task = {
        .block = CHOOSE(fill, dtype),
        .size = fill_size,
        .items = n_jobs,
        .length = LARGEST,
        .fills = (const Fill *)jobs,
    };
    run(&task, threads);
}

/* --- matrices turned ------------------------------------------------------------------------- */

/* For each of ``count`` matrices of rows × columns, one of which is small: to[c][r] = from[r][c]. */
#define TURN(type)                                                                            \
    static void turn_##type(int64_t count, int64_t rows, int64_t columns,                     \
                            const type *restrict from, type *restrict to) {                   \
        for (int64_t n = 0; n < count; n++, from += rows * columns, to += rows * columns) {   \
            if (columns == 2) {                                                               \
                LOOP(r, rows) to[r] = from[2 * r], to[rows + r] = from[2 * r + 1];            \
            } else if (rows == 2) {                                                           \
                LOOP(c, columns) to[2 * c] = from[c], to[2 * c + 1] = from[columns + c];      \
            } else if (columns < rows) {                                                      \
                for (int64_t c = 0; c < columns; c++)                                         \
                    LOOP(r, rows) to[c * rows + r] = from[r * columns + c];                   \
            } else {                                                                          \
                for (int64_t r = 0; r < rows; r++)                                            \
                    LOOP(c, columns) to[c * rows + r] = from[r * columns + c];                \
            }                                                                                 \
        }                                                                                     \
    }
TURN(float)
TURN(double)

typedef struct {
    int64_t dtype, count, rows, columns, from, to;
} Turn;

static void turn(const Turn *t, int64_t first, int64_t last) {
    const int64_t size = t->rows * t->columns, skip = first * size, count = last - first;
    if (t->dtype)
        turn_double(count, t->rows, t->columns, (double *)(intptr_t)t->from + skip,
                    (double *)(intptr_t)t->to + skip);
    else
        turn_float(count, t->rows, t->columns, (float *)(intptr_t)t->from + skip,
                   (float *)(intptr_t)t->to + skip);
}

static void turn_share(void *data) {
    const Turn *t = data;
    const int64_t part = thread_number(), parts = thread_count();
    turn(t, t->count * part / parts, t->count * (part + 1) / parts);
}

void cola_turn(int64_t dtype, int64_t count, int64_t rows, int64_t columns, int64_t from,
               int64_t to, int64_t threads) {
    Turn t = {dtype, count, rows, columns, from, to};
    if (threads > 1 && parallel && count * rows * columns >= THREADED)
        parallel(turn_share, &t, (unsigned)threads, 0);
    else
        turn(&t, 0, count);
}
