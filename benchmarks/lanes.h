/* Parts of the C references that have walkers in the lanes of a register: walkers.c and walk.c.
 *
 *   -DW=4       walkers side by side: 8 (AVX-512), 4 (AVX2) or 2 (128 bits)
 *   -DGATHER=1  read words by index with gather instructions instead of single loads (W of 8 and 4)
 *   -DCHEAP=1   the cheapest random numbers: xoshiro256+, which has a state. Another walk.
 */
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stddef.h>
#include <stdint.h>

#ifndef W
#error "give the walkers side by side: -DW=4"
#endif
#ifndef GATHER
#define GATHER 0
#endif
#ifndef CHEAP
#define CHEAP 0
#endif

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

/* ---- proposals ---------------------------------------------------------------------------------------------------- */

/* What W walkers need for their next decision: the hash of the step, the fraction of the proposal in the lower halves,
 * and the edges proposed, through memory and not lane by lane. */
struct proposal {
    words hash, total;
    volatile words at;
};

/* `place` has the nodes' first edges in the upper halves and their degrees in the lower ones. */
static inline void propose(struct proposal *next, words hash, words hop, words place)
{
    words total = multiply32(hop >> 32, place) + (multiply32(hop, place) >> 32);
    next->hash = hash;
    next->total = total;
    next->at = (place >> 32) + (total >> 32);
}

/* Take the hops of one walker's jump after the first; return how many. A node's place is at places[node * stride + plus],
 * and cuts are the cumulative probabilities of the distances times 2^53. */
static inline uint64_t further_hops(const uint64_t *places, uint64_t stride, uint64_t plus, const uint64_t *edges,
                                    const uint64_t *cuts, uint64_t jump, uint64_t hash, uint64_t *node, uint64_t *moves)
{
    uint64_t d = 1;
    for (; jump >= cuts[d - 1]; d++) {
        uint64_t from = places[*node * stride + plus], word = mix64(hash + (HOP + d) * SLOT);
        uint64_t index = (uint64_t)((unsigned __int128)word * (uint32_t)from >> 64);
        uint64_t to = (uint32_t)edges[(from >> 32) + index];
        *moves += *node != to;
        *node = to;
    }
    return d - 1;
}
