/* Langevin steps of many small matrices with orthonormal columns: threads go over matrices. */
#include <stdlib.h>

#include "common.h"

/* A stack of matrices: one row of the table that Python keeps. */
typedef struct {
    int64_t position, momentum, gradient, result, matrices, rows, columns, first, seed, ordinal,
        step, draw, row;
} Stack;

typedef struct {
    int64_t n_actions, width;
    const int64_t *kinds;
    const double *numbers; /* rows of weight decay, scale, tolerance, limit, three per action */
} Moves;

enum { DONE = 0, FAILED = 1, FAR = 2, NO_MEMORY = 3 };

#define BODY "matrices.h"
#include "variants.h"

typedef struct {
    void (*matrix)(const Moves *, const Stack *, int64_t, char *);
    const Stack *stacks;
    int64_t n_stacks, bytes, next; /* the matrix that is next to be taken */
    Moves moves;
} Work;

/* Take matrices, one after the other, as long as there are any. */
static void take(void *data) {
    Work *work = data;
    char *memory = aligned_alloc(64, (size_t)work->bytes);
    int64_t stack = 0, before = 0;
    for (;;) {
        const int64_t number = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);
        while (stack < work->n_stacks && number >= before + work->stacks[stack].matrices)
            before += work->stacks[stack++].matrices;
        if (stack == work->n_stacks) break;
        const Stack *s = work->stacks + stack;
        if (memory)
            work->matrix(&work->moves, s, number - before, memory);
        else
            ((int64_t *)(intptr_t)s->result)[2 * (number - before) + 1] = NO_MEMORY;
    }
    free(memory);
}

/* Numbers times the smaller side from which on threads are worth waking. */
static const int64_t THREADED = 1 << 18;

void cola_stiefel(int64_t dtype, int64_t n_stacks, const int64_t *stacks, int64_t n_actions,
                  const int64_t *kinds, const double *numbers, int64_t width, int64_t threads) {
    Work work = {
        .matrix = CHOOSE(matrix, dtype),
        .stacks = (const Stack *)stacks,
        .n_stacks = n_stacks,
        .moves = {n_actions, width, kinds, numbers},
    };
    int64_t effort = 0;
    for (int64_t i = 0; i < n_stacks; i++) {
        const Stack *s = work.stacks + i;
        const int64_t bytes = CHOOSE(room_bytes, dtype)(s);
        if (bytes > work.bytes) work.bytes = bytes;
        effort += s->matrices * s->rows * s->columns *
                  (s->rows < s->columns ? s->rows : s->columns);
    }
    work.bytes = (work.bytes + 63) / 64 * 64;
    if (threads > 1 && parallel && effort >= THREADED)
        parallel(take, &work, (unsigned)threads, 0);
    else
        take(&work);
}
