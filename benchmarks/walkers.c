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
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stddef.h>
#include <stdint.h>

#ifndef DIM
#error "give the dimension: -DDIM=10"
#endif
#ifndef W
#error "give the walkers side by side: -DW=4"
#endif
#ifndef FAR
#define FAR 0
#endif
#ifndef GATHER
#define GATHER 0
#endif
#ifndef CHEAP
#define CHEAP 0
#endif

enum { TARGET, WEIGHT, RATIO, PLACE, HEAD, LINES = (DIM + HEAD + 7) / 8, STRIDE = 8 * LINES, MOST = 64 };
enum { CHUNKS = (DIM + W - 1) / W }; /* registers of features */
enum { HOP = 1 };

static const uint64_t STEP = UINT64_C(0x9E3779B97F4A7C15), SLOT = UINT64_C(0xD1B54A32D192ED03);
static const uint64_t MIX_1 = UINT64_C(0xBF58476D1CE4E5B9), MIX_2 = UINT64_C(0x94D049BB133111EB);

typedef double reals __attribute__((vector_size(8 * W)));
typedef uint64_t words __attribute__((vector_size(8 * W)));
typedef int64_t signs __attribute__((vector_size(8 * W)));
typedef double loose_reals __attribute__((vector_size(8 * W), aligned(8)));

/* ---- randomness as a function: levywalk.draws, for one walker and for W ------------------------------------------ */

static inline uint64_t mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * MIX_1;
    z = (z ^ (z >> 27)) * MIX_2;
    return z ^ (z >> 31);
}

static inline words mix_lanes(words z)
{
    z = (z ^ (z >> 30)) * MIX_1;
    z = (z ^ (z >> 27)) * MIX_2;
    return z ^ (z >> 31);
}

static inline words step_hash(words a, words b, uint64_t step)
{
    words z = a + step * STEP;
    z = ((z ^ (z >> 30)) * MIX_1) ^ b;
    z = (z ^ (z >> 27)) * MIX_2;
    return z ^ (z >> 31);
}

/* xoshiro256+, with its four words of state in lanes: not a function of the step, and the cheapest that is usable. */
static inline words xoshiro(words s[4])
{
    words result = s[0] + s[3], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

/* ---- small parts -------------------------------------------------------------------------------------------------- */

static inline unsigned mask_of(signs mask)
{
#if W == 8
    return _mm512_movepi64_mask((__m512i)mask);
#elif W == 4
    return (unsigned)_mm256_movemask_pd((__m256d)mask);
#elif defined(__x86_64__)
    return (unsigned)_mm_movemask_pd((__m128d)mask);
#else
    return (unsigned)((mask[0] & 1) | (mask[1] & 2));
#endif
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

/* table[at[i] * times + plus] of W walkers. */
static inline words pick(const uint64_t *table, const uint64_t *at, uint64_t times, uint64_t plus)
{
#if GATHER && W == 8
    return (words)_mm512_i64gather_epi64((__m512i)(*(const words *)at * times), table + plus, 8);
#elif GATHER && W == 4
    return (words)_mm256_i64gather_epi64((const long long *)table + plus, (__m256i)(*(const words *)at * times), 8);
#else
    words found;
    for (int i = 0; i < W; i++)
        found[i] = table[at[i] * times + plus];
    return found;
#endif
}

/* The products of the lower halves of the lanes: one instruction, where a product of whole lanes takes eight. */
static inline words multiply32(words a, words b)
{
#if W == 8
    return (words)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif W == 4
    return (words)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
    return (words)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return (a & UINT32_MAX) * (b & UINT32_MAX);
#endif
}

static inline words select_lanes(signs mask, words yes, words no)
{
    return ((words)mask & yes) | (~(words)mask & no);
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
            model[w][j / W][j % W] = j < DIM ? model_out[w * STRIDE + HEAD + j] : 0.0;
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
                const double *features = records + v[i] * STRIDE + HEAD;
                const reals *x = model[g * W + i];
                partial[i] = *(const loose_reals *)features * x[0];
                for (int c = 1; c < CHUNKS; c++)
                    partial[i] += *(const loose_reals *)(features + c * W) * x[c];
            }
            words target = pick(places, v, STRIDE, TARGET), weight = pick(places, v, STRIDE, WEIGHT);
            reals change = ((reals)target - sums(partial)) * ((reals)weight * (2.0 * step_size));
            double slope[W] __attribute__((aligned(64)));
            *(reals *)slope = change;
            for (int i = 0; i < W; i++) {
                const double *features = records + v[i] * STRIDE + HEAD;
                reals *x = model[g * W + i];
                for (int c = 0; c < CHUNKS; c++)
                    x[c] += *(const loose_reals *)(features + c * W) * slope[i];
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
                uint64_t at_node = node[g][i], d = 1;
                for (; (uint64_t)jump[i] >= cuts[d - 1]; d++) {
                    uint64_t from = places[at_node * STRIDE + PLACE], word = mix64(hash[i] + (HOP + d) * SLOT);
                    uint64_t index = (uint64_t)((unsigned __int128)word * (uint32_t)from >> 64);
                    uint64_t to = (uint32_t)edges[(from >> 32) + index];
                    moves[g][i] += at_node != to;
                    at_node = to;
                }
                node[g][i] = at_node;
                hops[g * W + i] += d - 1;
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
        for (int j = 0; j < DIM; j++)
            model_out[w * STRIDE + HEAD + j] = model[w][j / W][j % W];
    }
}
