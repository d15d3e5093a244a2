/* Many walking models in C, vectorised by hand: what levywalk's kernel for many replicas is measured against.
 *
 * The same algorithm, draw for draw, as src/levywalk/engine/kernels/walkers.py takes for least squares with one sample
 * per node, over the very tables that it has packed: equal keys give equal walks, and models that differ by rounding
 * alone. Eight walkers lie in the lanes of an AVX-512 register; a batch of them takes turns. It is written for this one
 * case: no ridge, constant step size and jump probability, no visits, and the dimension a constant of the build.
 *
 *   -DDIM=10    the dimension
 *   -DFAR=1     ask for cache lines ahead: for tables that exceed the cache
 *   -DGATHER=1  read the nodes' and edges' words by gather instructions instead of eight loads
 *   -DCHEAP=1   cheaper random numbers: one multiplication for the jump's word instead of a hash. Another walk.
 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#ifndef DIM
#error "give the dimension: -DDIM=10"
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
enum { JUMP = 0, HOP = 1 };

static const uint64_t STEP = UINT64_C(0x9E3779B97F4A7C15), SLOT = UINT64_C(0xD1B54A32D192ED03);
static const uint64_t MIX_1 = UINT64_C(0xBF58476D1CE4E5B9), MIX_2 = UINT64_C(0x94D049BB133111EB);

/* ---- randomness as a function: levywalk.draws, for one walker and for eight ------------------------------------- */

static inline uint64_t mix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * MIX_1;
    z = (z ^ (z >> 27)) * MIX_2;
    return z ^ (z >> 31);
}

static inline __m512i all(uint64_t word)
{
    return _mm512_set1_epi64((long long)word);
}

static inline __m512i shift_xor(__m512i z, unsigned by)
{
    return _mm512_xor_si512(z, _mm512_srli_epi64(z, by));
}

static inline __m512i mix8(__m512i z)
{
    z = _mm512_mullo_epi64(shift_xor(z, 30), all(MIX_1));
    z = _mm512_mullo_epi64(shift_xor(z, 27), all(MIX_2));
    return shift_xor(z, 31);
}

static inline __m512i slot8(__m512i hash, uint64_t slot)
{
    return mix8(_mm512_add_epi64(hash, all((slot + 1) * SLOT)));
}

/* ---- small parts -------------------------------------------------------------------------------------------------- */

/* The sums of eight vectors, one per lane. */
static inline __m512d sums(const __m512d p[8])
{
    __m512d a[4], b[2];
    for (int i = 0; i < 4; i++)
        a[i] = _mm512_add_pd(_mm512_unpacklo_pd(p[2 * i], p[2 * i + 1]), _mm512_unpackhi_pd(p[2 * i], p[2 * i + 1]));
    for (int i = 0; i < 2; i++)
        b[i] = _mm512_add_pd(_mm512_shuffle_f64x2(a[2 * i], a[2 * i + 1], 0x88),
                             _mm512_shuffle_f64x2(a[2 * i], a[2 * i + 1], 0xdd));
    return _mm512_add_pd(_mm512_shuffle_f64x2(b[0], b[1], 0x88), _mm512_shuffle_f64x2(b[0], b[1], 0xdd));
}

/* A line of a record; of the first, the features alone. */
static inline __m512d features(const double *record, int line)
{
    return line ? _mm512_load_pd(record + 8 * line) : _mm512_maskz_load_pd(0xF0, record);
}

/* table[at[i] * times + plus] of eight walkers. */
static inline __m512i pick(const uint64_t *table, const uint64_t *at, uint64_t times, uint64_t plus)
{
#if GATHER
    __m512i index = _mm512_mullo_epi64(_mm512_loadu_si512(at), all(times));
    return _mm512_i64gather_epi64(times == 1 ? _mm512_loadu_si512(at) : index, table + plus, 8);
#else
#define ONE(i) (long long)table[at[i] * times + plus]
    return _mm512_set_epi64(ONE(7), ONE(6), ONE(5), ONE(4), ONE(3), ONE(2), ONE(1), ONE(0));
#undef ONE
#endif
}

static inline void ask(const void *address)
{
    _mm_prefetch((const char *)address, _MM_HINT_T0);
}

/* ---- the walk ----------------------------------------------------------------------------------------------------- */

/* Take `count` walkers, a multiple of 8 and at most MOST, from step `start` to step `stop`.
 *
 * node, model (rows of STRIDE, features from HEAD on), hops and transfers are read and updated in place. cuts are the
 * jump's cumulative probabilities times 2^53, `distances` of them. */
void walkers(int64_t count, const uint64_t *restrict k0, const uint64_t *restrict k1, int64_t start, int64_t stop,
             const double *restrict records, const uint64_t *restrict edges, double step_size,
             const uint64_t *restrict cuts, int64_t distances, uint64_t *restrict node, double *restrict model,
             uint64_t *restrict hops, uint64_t *restrict transfers)
{
    const uint64_t *words = (const uint64_t *)records;
    const __m512i low32 = all(UINT32_MAX), first_cut = all(cuts[0]), last_cut = all(cuts[distances - 1]);

    for (int64_t t = start; t < stop; t++) {
        if (FAR)
            for (int64_t w = 0; w < count; w++)
                ask(edges + (words[node[w] * STRIDE + PLACE] >> 32));

        for (int64_t g = 0; g < count; g += 8) {
            uint64_t *v8 = node + g;
            __m512i step = _mm512_add_epi64(_mm512_loadu_si512(k0 + g), all((uint64_t)t * STEP));
            __m512i hash = _mm512_xor_si512(mix8(step), _mm512_loadu_si512(k1 + g));
            __m512i word = CHEAP ? hash : slot8(hash, HOP);
            __m512i jump = CHEAP ? _mm512_mullo_epi64(hash, all(SLOT)) : slot8(hash, JUMP);
            jump = _mm512_srli_epi64(jump, 11);

            /* Update: x <- x - step_size w(v) grad f_v(x), with f_v(x) = (<a, x> - y)^2 */
            __m512d partial[8];
            for (int i = 0; i < 8; i++) {
                const double *record = records + v8[i] * STRIDE, *x = model + (g + i) * STRIDE;
                partial[i] = _mm512_mul_pd(features(record, 0), _mm512_load_pd(x));
                for (int line = 1; line < LINES; line++)
                    partial[i] = _mm512_fmadd_pd(features(record, line), _mm512_load_pd(x + 8 * line), partial[i]);
            }
            double z[8] __attribute__((aligned(64)));
            _mm512_store_pd(z, sums(partial));
            for (int i = 0; i < 8; i++) {
                const double *record = records + v8[i] * STRIDE;
                double *x = model + (g + i) * STRIDE;
                __m512d slope = _mm512_set1_pd(2.0 * (record[TARGET] - z[i]) * (step_size * record[WEIGHT]));
                for (int line = 0; line < LINES; line++) {
                    __m512d old = _mm512_load_pd(x + 8 * line);
                    _mm512_store_pd(x + 8 * line, _mm512_fmadd_pd(slope, features(record, line), old));
                }
            }

            /* Propose a neighbour */
            __m512i place = pick(words, v8, STRIDE, PLACE), degree = _mm512_and_si512(place, low32);
            __m512i low = _mm512_mul_epu32(word, degree);
            __m512i high = _mm512_mul_epu32(_mm512_srli_epi64(word, 32), degree);
            __m512i total = _mm512_add_epi64(high, _mm512_srli_epi64(low, 32));
            volatile uint64_t at[8] __attribute__((aligned(64))); /* through memory, not lane by lane */
            _mm512_store_si512((void *)at, _mm512_add_epi64(_mm512_srli_epi64(place, 32), _mm512_srli_epi64(total, 32)));
            __m512i edge = pick(edges, (const uint64_t *)at, 1, 0);
            __m512i fraction = _mm512_and_si512(total, low32), threshold = _mm512_srli_epi64(edge, 32);

            /* Accept it, or jump: the first hop is a proposal that is always accepted */
            __mmask8 accept = _mm512_cmplt_epu64_mask(fraction, threshold);
            __m512i apart = _mm512_add_epi64(_mm512_sub_epi64(fraction, threshold), all(1));
            __mmask8 close = _mm512_cmple_epu64_mask(apart, all(2));
            for (; close; close &= close - 1) { /* 32 bits do not settle it: once in 2^31 */
                int i = __builtin_ctz(close);
                uint64_t words8[8];
                _mm512_storeu_si512(words8, word);
                uint64_t u = (uint32_t)edges[at[i]], rest = words8[i] * (uint32_t)words[v8[i] * STRIDE + PLACE];
                double uniform = (double)(rest >> 11) * 0x1p-53;
                int yes = uniform * records[v8[i] * STRIDE + RATIO] < records[u * STRIDE + RATIO];
                accept = (__mmask8)((accept & ~(1 << i)) | yes << i);
            }
            __mmask8 jumping = _mm512_cmplt_epu64_mask(jump, last_cut);
            __mmask8 more = jumping & _mm512_cmpge_epu64_mask(jump, first_cut);
            __m512i v = _mm512_loadu_si512(v8);
            __m512i u = _mm512_mask_and_epi64(v, accept | jumping, edge, low32);
            _mm512_storeu_si512(v8, u);
            __m512i moved = _mm512_loadu_si512(transfers + g);
            moved = _mm512_mask_add_epi64(moved, _mm512_cmpneq_epu64_mask(u, v), moved, all(1));
            _mm512_storeu_si512(transfers + g, moved);

            /* Further hops of a jump */
            if (more) {
                uint64_t jumps[8], hashes[8];
                _mm512_storeu_si512(jumps, jump);
                _mm512_storeu_si512(hashes, hash);
                for (; more; more &= more - 1) {
                    int i = __builtin_ctz(more);
                    uint64_t a = v8[i], d = 1;
                    for (; jumps[i] >= cuts[d - 1]; d++) {
                        uint64_t here = words[a * STRIDE + PLACE], hop = mix64(hashes[i] + (HOP + d + 1) * SLOT);
                        uint64_t index = (uint64_t)((unsigned __int128)hop * (uint32_t)here >> 64);
                        uint64_t b = (uint32_t)edges[(here >> 32) + index];
                        transfers[g + i] += a != b;
                        a = b;
                    }
                    v8[i] = a;
                    hops[g + i] += d - 1;
                }
            }
            if (FAR)
                for (int i = 0; i < 8; i++)
                    for (int line = 0; line < LINES; line++)
                        ask(records + v8[i] * STRIDE + 8 * line);
        }
    }
    for (int64_t w = 0; w < count; w++)
        hops[w] += (uint64_t)(stop - start);
}
