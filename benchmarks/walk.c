/* Walks without a model in C, vectorised by hand: what levywalk's kernel for the walk alone is measured against.
 *
 * The same walk, draw for draw, as src/levywalk/engine/kernels/walkers.py takes without a model, over the very tables
 * that it has packed: a word for each node (first edge and degree) and a word for each edge (neighbour and acceptance
 * threshold). Equal keys give equal walks. W walkers lie in the lanes of a register of 64 W bits; a batch of them takes
 * turns. It is written for this one case: nothing is recorded but the last node, the hops and the transfers.
 *
 *   -DW=4       walkers side by side: 8 (AVX-512), 4 (AVX2) or 2 (128 bits)
 *   -DFAR=1     ask for cache lines ahead: for tables that exceed the cache
 *   -DJUMPS=0   a design without jumps
 */
#include "lanes.h"

#ifndef FAR
#define FAR 0
#endif
#ifndef JUMPS
#define JUMPS 1
#endif

enum { MOST = 64 };

/* Take `count` walkers, a multiple of W and at most MOST, from step `start` to step `stop`.
 *
 * a and b are the halves of the expanded keys. node, hops and transfers are read and updated in place. ratios are
 * t_v / deg(v). cuts are the jump's cumulative probabilities times 2^53, `distances` of them. */
void walk(int64_t count, const uint64_t *restrict a, const uint64_t *restrict b, int64_t start, int64_t stop,
          const uint64_t *restrict places, const uint64_t *restrict edges, const double *restrict ratios,
          const uint64_t *restrict cuts, int64_t distances, uint64_t *restrict node_out, uint64_t *restrict hops_out,
          uint64_t *restrict transfers_out)
{
    const uint64_t first_cut = cuts[0], last_cut = cuts[distances - 1], low32 = UINT32_MAX;
    words node[MOST / W], keys[MOST / W][2], moves[MOST / W];
    uint64_t hops[MOST] = {0};
    for (int64_t w = 0; w < count; w++) {
        node[w / W][w % W] = node_out[w];
        keys[w / W][0][w % W] = a[w];
        keys[w / W][1][w % W] = b[w];
        moves[w / W][w % W] = transfers_out[w];
    }

    const int64_t groups = count / W, lead = groups / 2;
    struct proposal next[MOST / W];
    for (int64_t g = 0; g < lead; g++) {
        words hash = step_hash(keys[g][0], keys[g][1], (uint64_t)start);
        propose(&next[g], hash, mix_lanes(hash + HOP * SLOT), pick(places, (const uint64_t *)&node[g], 1, 0));
    }
    for (int64_t t = start; t < stop; t++) {
        for (int64_t g = 0; g < groups; g++) {
            /* Propose a neighbour, half a round before the group's turn: the edge has then arrived */
            int64_t q = g + lead < groups ? g + lead : g + lead - groups;
            words ahead = step_hash(keys[q][0], keys[q][1], (uint64_t)(t + (g + lead >= groups)));
            propose(&next[q], ahead, mix_lanes(ahead + HOP * SLOT), pick(places, (const uint64_t *)&node[q], 1, 0));
            if (FAR)
                for (int i = 0; i < W; i++)
                    __builtin_prefetch(edges + ((volatile uint64_t *)&next[q].at)[i]);

            const uint64_t *v = (const uint64_t *)&node[g];
            const volatile uint64_t *at = (const volatile uint64_t *)&next[g].at;
            words hash = next[g].hash, total = next[g].total, edge = pick(edges, (const uint64_t *)at, 1, 0);

            /* Metropolis-Hastings: accept with probability ratio_u / ratio_v; the threshold settles all but equality */
            signs chance = (signs)(total & low32), threshold = (signs)(edge >> 32);
            signs accept = chance < threshold;
            unsigned close = mask_of(chance == threshold);
            for (; __builtin_expect(close != 0, 0); close &= close - 1) {
                int i = __builtin_ctz(close);
                uint64_t u = (uint32_t)edges[at[i]], word = mix64(hash[i] + HOP * SLOT);
                double uniform = (double)(word * (uint32_t)places[v[i]] >> 11) * 0x1p-53;
                accept[i] = -(int64_t)(uniform * ratios[v[i]] < ratios[u]);
            }
            unsigned more = 0;
            signs jump = (signs)(hash >> 11);
            if (JUMPS) {
                signs jumping = jump < (int64_t)last_cut;
                more = mask_of(jumping & ~(jump < (int64_t)first_cut));
                accept |= jumping;
            }
            words here = node[g], there = select_lanes(accept, edge & low32, here);
            node[g] = there;
            moves[g] += 1 + (words)(there == here);

            /* Further hops of a jump */
            for (; more; more &= more - 1) {
                int i = __builtin_ctz(more);
                uint64_t at_node = node[g][i], moved = 0;
                hops[g * W + i] +=
                    further_hops(places, 1, 0, edges, cuts, (uint64_t)jump[i], hash[i], &at_node, &moved);
                node[g][i] = at_node;
                moves[g][i] += moved;
            }
            if (FAR)
                for (int i = 0; i < W; i++)
                    __builtin_prefetch(places + v[i]);
        }
    }
    for (int64_t w = 0; w < count; w++) {
        node_out[w] = node[w / W][w % W];
        transfers_out[w] = moves[w / W][w % W];
        hops_out[w] += hops[w] + (uint64_t)(stop - start);
    }
}
