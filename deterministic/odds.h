/*
 * deterministic/odds - how many equal runs say how much.
 *
 * Runs of a job have results. If its commonest result comes in a share s of all runs, N runs are
 * all equal with a chance of at most s^(N-1). From what was seen, s is known up to a bound; all
 * bounds here hold with a confidence of TB_ODDS_CONFIDENCE, each taken by itself. Pure; any thread.
 */
#ifndef TB_DETERMINISTIC_ODDS_H
#define TB_DETERMINISTIC_ODDS_H

#include <stdint.h>

#define TB_ODDS_CONFIDENCE 0.95

/**
 * tb_odds_share - the largest share of runs that a result can have which came in @seen of @runs
 * The bound of Clopper and Pearson, one-sided. 1 if @seen is @runs.
 */
double tb_odds_share(uint64_t seen, uint64_t runs);

/** tb_odds_equal - chance that @runs runs are equal, where @share is that of the commonest result
 */
double tb_odds_equal(double share, uint64_t runs);

/** tb_odds_runs - least number of runs, 2 or more, for which tb_odds_equal() is @chance at most;
 * UINT64_MAX if @share is 1 */
uint64_t tb_odds_runs(double share, double chance);

/** tb_odds_excluded - @runs runs were equal: had a share of runs of this or more differed from the
 * others, that would not have been so */
double tb_odds_excluded(uint64_t runs);

#endif
