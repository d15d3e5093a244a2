/* One walking model in C: what levywalk's compiled kernel is measured against.
 *
 * The same algorithm, draw for draw, as the kernel takes for least squares with one sample per node
 * (src/levywalk/engine/kernels/walkers.py): equal keys give the equal walk, and a model that differs by rounding alone.
 * It is written for this one case, so it owes nothing to generality: no ridge, one phase, constant step size and jump
 * probability, and the dimension a constant of the build (-DDIM=10).
 *
 * A node's record holds STRIDE doubles from a cache line on: target, weight w(v), ratio t_v / deg(v), a word that this
 * program does not read, and the features. Neighbours are read from the network's own arrays.
 */
#include <stddef.h>
#include <stdint.h>

#ifndef DIM
#error "give the dimension: -DDIM=10"
#endif

enum { TARGET, WEIGHT, RATIO, HEAD = 4, STRIDE = (DIM + HEAD + 7) / 8 * 8 };

/* ---- randomness as a function: levywalk.draws ------------------------------------------------------------------ */

enum { HOP = 1 };

static inline uint64_t mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* First level: once per step, under the halves of an expanded key. It is the word of the slot JUMP. */
static inline uint64_t step_hash(uint64_t a, uint64_t b, uint64_t step)
{
    uint64_t z = a + step * UINT64_C(0x9E3779B97F4A7C15);
    z = ((z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9)) ^ b;
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Second level: once per other slot. */
static inline uint64_t slot_word(uint64_t hash, uint64_t slot)
{
    return mix64(hash + slot * UINT64_C(0xD1B54A32D192ED03));
}

/* The upper 53 bits as a number in [0, 1). */
static inline double unit(uint64_t word)
{
    return (double)(word >> 11) * 0x1p-53;
}

/* A uniform index below count < 2^32, and in *rest an independent uniform in [0, 1): the whole and the fractional part
 * of word / 2^64 * count. */
static inline uint64_t split(uint64_t word, uint64_t count, double *rest)
{
    uint64_t low = (word & UINT32_MAX) * count;
    uint64_t total = (word >> 32) * count + (low >> 32);
    *rest = unit(total << 32 | (low & UINT32_MAX));
    return total >> 32;
}

/* ---- the walk -------------------------------------------------------------------------------------------------- */

/* A neighbour of v that the word chooses uniformly. */
static inline uint64_t neighbour(const uint64_t *indptr, const uint32_t *indices, uint64_t v, uint64_t word, double *rest)
{
    uint64_t first = indptr[v];
    return indices[first + split(word, indptr[v + 1] - first, rest)];
}

/* Take one chain from step `start` to step `stop`.
 *
 * node, model, hops and transfers are read and updated in place; visits (n counts) and walk (a node for every step) are
 * filled unless NULL. distances is the cumulative law of the jump distance; its last entry is 1. */
void chain(uint64_t a, uint64_t b, int64_t start, int64_t stop, const uint64_t *restrict indptr,
           const uint32_t *restrict indices, const double *restrict records, double step_size, double p_jump,
           const double *restrict distances, int64_t *restrict node, double *restrict model, int64_t *restrict hops,
           int64_t *restrict transfers, int64_t *restrict visits, int32_t *restrict walk)
{
    uint64_t v = (uint64_t)*node;
    int64_t hopped = 0, transferred = 0;
    double x[DIM];
    for (int j = 0; j < DIM; j++)
        x[j] = model[j];

    for (int64_t t = start; t < stop; t++) {
        uint64_t hash = step_hash(a, b, (uint64_t)t);
        const double *record = records + v * STRIDE;
        double rest;
        if (visits)
            visits[v]++;
        if (walk)
            walk[t] = (int32_t)v;

        /* Update: x <- x - step_size w(v) grad f_v(x), with f_v(x) = (<a, x> - y)^2 */
        double z = 0.0;
        for (int j = 0; j < DIM; j++)
            z += record[HEAD + j] * x[j];
        double slope = step_size * record[WEIGHT] * 2.0 * (z - record[TARGET]);
        for (int j = 0; j < DIM; j++)
            x[j] -= slope * record[HEAD + j];

        double uniform = unit(hash);
        if (uniform < p_jump) {
            /* Jump: several hops to uniform neighbours, without updates */
            int distance = 1;
            while (uniform >= p_jump * distances[distance - 1])
                distance++;
            for (int i = 0; i < distance; i++) {
                uint64_t u = neighbour(indptr, indices, v, slot_word(hash, HOP + (uint64_t)i), &rest);
                transferred += u != v;
                v = u;
            }
            hopped += distance;
        } else {
            /* Metropolis-Hastings: propose a neighbour, accept or stay */
            uint64_t u = neighbour(indptr, indices, v, slot_word(hash, HOP), &rest);
            if (rest * record[RATIO] < records[u * STRIDE + RATIO]) {
                transferred += u != v;
                v = u;
            }
            hopped++;
        }
    }

    *node = (int64_t)v;
    *hops += hopped;
    *transfers += transferred;
    for (int j = 0; j < DIM; j++)
        model[j] = x[j];
}
