//! From where on a run is steady: the end of a warm-up that the file leaves to be found.
//!
//! The method is MSER-5 (White, "An effective truncation heuristic for bias reduction in simulation output",
//! 1997; White, Cobb and Spratt, 2000): of all beginnings that could be cut off, the one whose rest has a mean
//! with the least standard error, looked for over means of five observations. A run is not steady if that
//! lies in its second half: then there is a trend that goes on. Whole numbers up to the last division, so
//! that every machine finds the same. Leans on nothing of ours.

/// Fewer slices than this say nothing.
pub(super) const FEWEST: usize = 10;

/// How many of the first values are no part of the steady rest; none if the rest never becomes steady or
/// there are too few values to say.
///
/// Of ends that are as good the earliest counts. The last quarter of the values is never looked for by itself:
/// so few values may agree by chance.
pub(super) fn steady_from(values: &[u64]) -> Option<usize> {
    if values.len() < FEWEST {
        return None;
    }
    let last = values.len() * 3 / 4;
    let mut best = (0, f64::INFINITY);
    let (mut sum, mut squares) = (0_u128, 0_u128);
    for (index, value) in values.iter().enumerate().rev() {
        let value = u128::from(*value);
        sum += value;
        squares = squares.saturating_add(value.saturating_mul(value));
        let error = standard_error(sum, squares, (values.len() - index) as u128);
        // from the back, so that the earliest of equals is kept
        if index <= last && error <= best.1 {
            best = (index, error);
        }
    }
    (best.0 <= values.len() / 2).then_some(best.0)
}

/// The square of the standard error of the mean of `count` values, but for a constant.
fn standard_error(sum: u128, squares: u128, count: u128) -> f64 {
    let spread = squares
        .saturating_mul(count)
        .saturating_sub(sum.saturating_mul(sum));
    spread as f64 / (count * count * count) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use rand::RngExt;

    /// 48 values, as many as a run has slices, with noise of a tenth.
    fn noisy(seed: u64, mean: impl Fn(usize) -> f64) -> Vec<u64> {
        let mut draw = Seed(seed).generator("noise", 0);
        (0..48)
            .map(|index| (mean(index) * draw.random_range(0.9..1.1)).round() as u64)
            .collect()
    }

    /// How many of 200 noisy series are judged so.
    fn judged(mean: impl Fn(usize) -> f64, so: impl Fn(Option<usize>) -> bool) -> usize {
        let judged = (0..200).filter(|seed| so(steady_from(&noisy(*seed, &mean))));
        judged.count()
    }

    #[test]
    fn a_constant_run_is_steady_from_its_start() {
        assert_eq!(steady_from(&[700; 48]), Some(0));
        assert_eq!(steady_from(&[0; 20]), Some(0));
        let kept = judged(|_| 10_000.0, |from| from.is_some_and(|from| from <= 16));
        assert!(kept >= 190, "{kept}");
    }

    #[test]
    fn a_slow_start_is_cut_off_where_it_ends() {
        let ramp = |index: usize| 10_000.0 * (index as f64 / 12.0).min(1.0);
        let exact: Vec<u64> = (0..48).map(|index| ramp(index) as u64).collect();
        assert_eq!(steady_from(&exact), Some(12));
        let found = judged(ramp, |from| {
            from.is_some_and(|from| (9..=20).contains(&from))
        });
        assert!(found >= 190, "{found}");
    }

    #[test]
    fn a_dip_at_the_start_is_cut_off() {
        let dip = |index: usize| {
            if (2..6).contains(&index) {
                1_000.0
            } else {
                10_000.0
            }
        };
        let found = judged(dip, |from| {
            from.is_some_and(|from| (6..=16).contains(&from))
        });
        assert!(found >= 190, "{found}");
        let burst = |index: usize| if index < 4 { 40_000.0 } else { 10_000.0 };
        let found = judged(burst, |from| {
            from.is_some_and(|from| (4..=16).contains(&from))
        });
        assert!(found >= 190, "{found}");
    }

    #[test]
    fn a_drift_never_settles() {
        let up: Vec<u64> = (0..48).map(|index| 10_000 + 300 * index).collect();
        let down: Vec<u64> = up.iter().rev().copied().collect();
        assert_eq!((steady_from(&up), steady_from(&down)), (None, None));
        let refused = judged(
            |index| 10_000.0 * (1.0 + index as f64 / 16.0),
            |from| from.is_none(),
        );
        assert!(refused >= 190, "{refused}");
        let late = |index: usize| if index < 32 { 1_000.0 } else { 10_000.0 };
        assert!(judged(late, |from| from.is_none()) >= 190);
    }

    #[test]
    fn too_few_values_say_nothing() {
        assert_eq!(steady_from(&[]), None);
        assert_eq!(steady_from(&[5; FEWEST - 1]), None);
        assert_eq!(steady_from(&[5; FEWEST]), Some(0));
    }

    #[test]
    fn absurd_values_do_not_overflow() {
        let mut values = [u64::MAX; 48];
        values[0] = 0;
        let _ = steady_from(&values);
    }
}
