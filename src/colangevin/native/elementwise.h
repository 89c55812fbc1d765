/* Steps and normals over blocks, for one set of instructions. */
#include "normals.h"

TARGET static void NAMED(fill, VARIANT, float)(const Task *task, int64_t item,
                                               int64_t member, int64_t start, int64_t count) {
    (void)member;
    const Fill *f = task->fills + item;
    float room[LARGEST + 2 * CHUNK];
    const float *made = NAMED(draw, VARIANT, noise)(room, f->first + start, count, f->seed,
                                                    f->ordinal, f->step, f->draw);
    memcpy((float *)(intptr_t)f->out + start, made, (size_t)count * sizeof(float));
}

TARGET static void NAMED(fill, VARIANT, double)(const Task *task, int64_t item,
                                                int64_t member, int64_t start, int64_t count) {
    (void)member;
    const Fill *f = task->fills + item;
    float room[LARGEST + 2 * CHUNK];
    const float *made = NAMED(draw, VARIANT, noise)(room, f->first + start, count, f->seed,
                                                    f->ordinal, f->step, f->draw);
    double *out = (double *)(intptr_t)f->out + start;
    LOOP(i, count) out[i] = made[i];
}

#define TEMPLATE "step.h"
#include "dtypes.h"
#undef TEMPLATE
