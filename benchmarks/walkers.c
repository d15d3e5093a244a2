/* Many walking models in C, vectorised by hand: what levywalk's kernel for many replicas is measured against.
 *
 * The same algorithm, draw for draw, as src/levywalk/engine/kernels/walkers.py takes for least squares with one sample
 * per node, over the very tables that it has packed: equal keys give equal walks, and models that differ by rounding
 * alone (this program may fuse and reorder as it likes). W walkers lie in the lanes of a register of 64 W bits; a batch
 * of them takes turns. It is written for this one case: no ridge, constant step size and jump probability, no visits,
 * and the dimension a constant of the build.
 *
 *   -DW=4       walkers side by side: 8 (AVX-512), 4 (AVX2) or 2 (128 bits)
 *   -DDIM=10    the dimension
 *   -DFAR=1     ask for cache lines ahead: for tables that exceed the cache
 *   -DGATHER=1  read the nodes' and edges' words by gather instructions instead of single loads (W of 8 and 4)
 *   -DCHEAP=1   the cheapest random numbers: xoshiro256+, which has a state. Another walk.
 */
#include "lanes.h"

#ifndef DIM
#error "give the dimension: -DDIM=10"
#endif
#ifndef FAR
#define FAR 0
#endif

enum { TARGET, WEIGHT, RATIO, PLACE, HEAD, LINES = (DIM + HEAD + 7) / 8, STRIDE = 8 * LINES, MOST = 64 };
/* Registers of features, and where they begin. Those of eight numbers are whole lines, without the head: they would
 * reach into the next record, and cross lines. */
#if W == 8
enum { BEGIN = 0, CHUNKS = LINES };
#else
enum { BEGIN = HEAD, CHUNKS = (DIM + W - 1) / W };
#endif

static inline reals features(const double *record, int chunk)
{
#if W == 8
    if (chunk == 0)
        return (reals)_mm512_maskz_load_pd(0xf0, record);
#endif
    return *(const loose_reals *)(record + BEGIN + chunk * W);
}

/* The sums of W vectors, one per lane. */
static inline reals sums(const reals p[W])
{
#if W == 8
    __m512d a[4], b[2];
    for (int i = 0; i < 4; i++)
        a[i] = _mm512_add_pd(_mm512_unpacklo_pd(p[2 * i], p[2 * i + 1]), _mm512_unpackhi_pd(p[2 * i], p[2 * i + 1]));
    for (int i = 0; i < 2; i++)
        b[i] = _mm512_add_pd(_mm512_shuffle_f64x2(a[2 * i], a[2 * i + 1], 0x88),
                             _mm512_shuffle_f64x2(a[2 * i], a[2 * i + 1], 0xdd));
    return _mm512_add_pd(_mm512_shuffle_f64x2(b[0], b[1], 0x88), _mm512_shuffle_f64x2(b[0], b[1], 0xdd));
#elif W == 4
    __m256d a = _mm256_hadd_pd(p[0], p[1]), b = _mm256_hadd_pd(p[2], p[3]);
    return _mm256_add_pd(_mm256_permute2f128_pd(a, b, 0x20), _mm256_permute2f128_pd(a, b, 0x31));
#else
    reals a = {p[0][0], p[1][0]}, b = {p[0][1], p[1][1]};
    return a + b;
#endif
}

/* ---- the walk ----------------------------------------------------------------------------------------------------- */

/* Take `count` walkers, a multiple of W and at most MOST, from step `start` to step `stop`.
 *
 * a and b are the halves of the expanded keys. node, model (rows of STRIDE, features from HEAD on), hops and transfers
 * are read and updated in place. cuts are the jump's cumulative probabilities times 2^53, `distances` of them. */
void walkers(int64_t count, const uint64_t *restrict a, const uint64_t *restrict b, int64_t start, int64_t stop,
             const double *restrict records, const uint64_t *restrict edges, double step_size,
             const uint64_t *restrict cuts, int64_t distances, uint64_t *restrict node_out, double *restrict model_out,
             uint64_t *restrict hops_out, uint64_t *restrict transfers_out)
{
    const uint64_t *places = (const uint64_t *)records;
    const uint64_t first_cut = cuts[0], last_cut = cuts[distances - 1], low32 = UINT32_MAX;
    words node[MOST / W], keys[MOST / W][2], moves[MOST / W], state[MOST / W][4];
    reals model[MOST][CHUNKS];
    uint64_t hops[MOST] = {0};
    for (int64_t w = 0; w < count; w++) {
        node[w / W][w % W] = node_out[w];
        keys[w / W][0][w % W] = a[w];
        keys[w / W][1][w % W] = b[w];
        moves[w / W][w % W] = transfers_out[w];
        for (int k = 0; k < 4; k++)
            state[w / W][k][w % W] = mix64(a[w] + (uint64_t)k * STEP) ^ b[w];
        for (int j = 0; j < CHUNKS * W; j++)
            model[w][j / W][j % W] = model_out[w * STRIDE + BEGIN + j]; /* zeros beside the features */
    }

    for (int64_t t = start; t < stop; t++) {
        if (FAR)
            for (int64_t w = 0; w < count; w++)
                __builtin_prefetch(edges + (places[((uint64_t *)node)[w] * STRIDE + PLACE] >> 32));

        for (int64_t g = 0; g < count / W; g++) {
            const uint64_t *v = (const uint64_t *)&node[g];
            words hash = CHEAP ? xoshiro(state[g]) : step_hash(keys[g][0], keys[g][1], (uint64_t)t);
            words hop = CHEAP ? xoshiro(state[g]) : mix_lanes(hash + HOP * SLOT);
            words place = pick(places, v, STRIDE, PLACE);

            /* Update: x <- x - step_size w(v) grad f_v(x), with f_v(x) = (<a, x> - y)^2 */
            reals partial[W];
            for (int i = 0; i < W; i++) {
                const double *record = records + v[i] * STRIDE;
                const reals *x = model[g * W + i];
                partial[i] = features(record, 0) * x[0];
                for (int c = 1; c < CHUNKS; c++)
                    partial[i] += features(record, c) * x[c];
            }
            words target = pick(places, v, STRIDE, TARGET), weight = pick(places, v, STRIDE, WEIGHT);
            reals change = ((reals)target - sums(partial)) * ((reals)weight * (2.0 * step_size));
            double slope[W] __attribute__((aligned(64)));
            *(reals *)slope = change;
            for (int i = 0; i < W; i++) {
                const double *record = records + v[i] * STRIDE;
                reals *x = model[g * W + i];
                for (int c = 0; c < CHUNKS; c++)
                    x[c] += features(record, c) * slope[i];
            }

            /* Propose a neighbour */
            words total = multiply32(hop >> 32, place) + (multiply32(hop, place) >> 32);
            volatile uint64_t at[W] __attribute__((aligned(64))); /* through memory, not lane by lane */
            *(volatile words *)at = (place >> 32) + (total >> 32);
            words edge = pick(edges, (const uint64_t *)at, 1, 0);

            /* Metropolis-Hastings: accept with probability ratio_u / ratio_v; the threshold settles all but equality */
            signs chance = (signs)(total & low32), threshold = (signs)(edge >> 32);
            signs accept = chance < threshold;
            unsigned close = mask_of(chance == threshold);
            for (; __builtin_expect(close != 0, 0); close &= close - 1) {
                int i = __builtin_ctz(close);
                uint64_t u = (uint32_t)edges[at[i]], rest = hop[i] * (uint32_t)place[i];
                double uniform = (double)(rest >> 11) * 0x1p-53;
                accept[i] = -(int64_t)(uniform * records[v[i] * STRIDE + RATIO] < records[u * STRIDE + RATIO]);
            }
            signs jump = (signs)(hash >> 11), jumping = jump < (int64_t)last_cut;
            unsigned more = mask_of(jumping & ~(jump < (int64_t)first_cut));
            words here = node[g], there = select_lanes(accept | jumping, edge & low32, here);
            node[g] = there;
            moves[g] += 1 + (words)(there == here);

            /* Further hops of a jump */
            for (; more; more &= more - 1) {
                int i = __builtin_ctz(more);
                uint64_t at_node = node[g][i], moved = 0;
                hops[g * W + i] +=
                    further_hops(places, STRIDE, PLACE, edges, cuts, (uint64_t)jump[i], hash[i], &at_node, &moved);
                node[g][i] = at_node;
                moves[g][i] += moved;
            }
            if (FAR)
                for (int i = 0; i < W; i++)
                    for (int line = 0; line < LINES; line++)
                        __builtin_prefetch(records + v[i] * STRIDE + 8 * line);
        }
    }
    for (int64_t w = 0; w < count; w++) {
        node_out[w] = node[w / W][w % W];
        transfers_out[w] = moves[w / W][w % W];
        hops_out[w] += hops[w] + (uint64_t)(stop - start);
        for (int j = 0; j < CHUNKS * W; j++)
            model_out[w * STRIDE + BEGIN + j] = model[w][j / W][j % W];
    }
}
