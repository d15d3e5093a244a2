/* What the machine can do at best: random cache lines, and products with additions.
 *
 *   -DW=4       numbers in a register: 8 (AVX-512), 4 (AVX2) or 2 (128 bits)
 */
#include <stddef.h>
#include <stdint.h>

#ifndef W
#error "give the numbers in a register: -DW=4"
#endif

enum { LINE = 8, AHEAD = 64, BLOCK = 256, SUMS = 12 };

typedef double reals __attribute__((vector_size(8 * W)));

static const uint64_t WEYL = UINT64_C(0x9E3779B97F4A7C15);

/* The cheapest numbers that jump over the whole table: a Weyl sequence, scaled to the table by its upper half. */
static inline uint64_t next(uint64_t *state, uint64_t lines)
{
    *state += WEYL;
    uint64_t word = *state ^ (*state >> 29);
    return (word * UINT64_C(0xBF58476D1CE4E5B9) >> 32) * lines >> 32;
}

/* Read one word of each of `count` random lines of a table of so many lines, none waiting for another. Lines are asked
 * for AHEAD reads before they are read. `first` is the place of the first line in the sequence: who always began at the
 * same one would find the lines of the last time in the cache. Return a sum, so that nothing is left out. */
uint64_t random_lines(const uint64_t *table, uint64_t lines, int64_t count, uint64_t first)
{
    uint64_t ahead = first * WEYL, state = ahead, sum = 0;
    for (int i = 0; i < AHEAD; i++)
        __builtin_prefetch(table + LINE * next(&ahead, lines));
    for (int64_t i = 0; i < count; i++) {
        __builtin_prefetch(table + LINE * next(&ahead, lines));
        sum += table[LINE * next(&state, lines)];
    }
    return sum;
}

/* The same without asking ahead: the processor itself looks as far ahead as it can. */
uint64_t random_lines_unasked(const uint64_t *table, uint64_t lines, int64_t count, uint64_t first)
{
    uint64_t state = first * WEYL, sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += table[LINE * next(&state, lines)];
    return sum;
}

/* The same from a list: which lines to read is computed for BLOCK of them before the first is read, so that more reads
 * fit into what the processor looks ahead. A rest of `count` beyond whole blocks is left out. */
uint64_t random_lines_listed(const uint64_t *table, uint64_t lines, int64_t count, uint64_t first)
{
    uint64_t state = first * WEYL, sums[4] = {0}, list[2][BLOCK];
    for (int i = 0; i < BLOCK; i++)
        list[0][i] = LINE * next(&state, lines);
    for (int64_t block = 0; block < count / BLOCK; block++) {
        const uint64_t *now = list[block % 2];
        uint64_t *after = list[(block + 1) % 2];
        for (int i = 0; i < BLOCK; i++)
            after[i] = LINE * next(&state, lines);
        for (int i = 0; i < BLOCK; i += 4)
            for (int k = 0; k < 4; k++)
                sums[k] += table[now[i + k]];
    }
    return sums[0] + sums[1] + sums[2] + sums[3];
}

/* The same, but each line depends on the word that was read before: the time that one walker waits. */
uint64_t chained_lines(const uint64_t *table, uint64_t lines, int64_t count, uint64_t first)
{
    uint64_t state = first * WEYL, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += table[LINE * next(&state, lines)];
        state += sum & 1;
    }
    return sum;
}

/* Read a table from its beginning to its end, `count` times. */
double in_order(const double *table, int64_t numbers, int64_t count)
{
    reals sum[8] = {{0}};
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j + 8 * W <= numbers; j += 8 * W)
            for (int k = 0; k < 8; k++)
                sum[k] += *(const reals *)(table + j + k * W);
    reals all = sum[0];
    for (int k = 1; k < 8; k++)
        all += sum[k];
    return all[0] + all[W - 1];
}

/* `count` times SUMS products and additions of W numbers, which wait for none but their own. */
double products(int64_t count)
{
    reals sum[SUMS], factor, term;
    for (int j = 0; j < W; j++)
        factor[j] = 0.5, term[j] = 1e-3;
    for (int k = 0; k < SUMS; k++)
        sum[k] = term * (k + 1);
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < SUMS; k++)
            sum[k] = sum[k] * factor + term;
    reals all = sum[0];
    for (int k = 1; k < SUMS; k++)
        all += sum[k];
    return all[0] + all[W - 1];
}
