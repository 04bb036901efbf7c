#include "deterministic/odds.h"

#include <math.h>

/* Chance of at most @seen hits in @runs, each with chance @p in (0,1) */
static double at_most(uint64_t seen, uint64_t runs, double p)
{
    double n = (double)runs, sum = 0;

    for (uint64_t k = 0; k <= seen; k++) {
        double i = (double)k;
        sum += exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) + i * log(p) +
                   (n - i) * log1p(-p));
    }
    return sum;
}

double tb_odds_share(uint64_t seen, uint64_t runs)
{
    double low = 0, high = 1;

    if (seen >= runs)
        return 1;
    for (int i = 0; i < 60; i++) { /* the chance falls as the share grows */
        double middle = (low + high) / 2;
        if (at_most(seen, runs, middle) > 1 - TB_ODDS_CONFIDENCE)
            low = middle;
        else
            high = middle;
    }
    return high;
}

double tb_odds_equal(double share, uint64_t runs)
{
    return runs < 2 ? 1 : pow(share, (double)(runs - 1));
}

uint64_t tb_odds_runs(double share, double chance)
{
    if (share >= 1)
        return UINT64_MAX;
    if (share <= 0)
        return 2;
    double n = ceil(log(chance) / log(share) - 1e-9) + 1;
    return n < 2 ? 2 : n > 1e18 ? UINT64_MAX : (uint64_t)n;
}

double tb_odds_excluded(uint64_t runs)
{
    return runs < 2 ? 1 : 1 - pow(1 - TB_ODDS_CONFIDENCE, 1 / (double)(runs - 1));
}
