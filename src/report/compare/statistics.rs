//! What a comparison needs to know about chance: correlated values, resampling in blocks, Welch's test.
//!
//! Pure: the generator is the caller's. Leans on the crates `statrs` for Student's distribution and
//! `rand`.

use rand::RngExt as _;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::seed::Generator;

/// The mean and the unbiased variance; the variance of fewer than two values is 0.
pub(super) fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, squares / (count - 1.0).max(1.0))
}

/// How many values in a row say as much as one that stands alone: 1 for independent values, up to
/// their number for a drift.
///
/// The integrated autocorrelation time, cut off by the initial positive sequence of C. J. Geyer
/// ("Practical Markov Chain Monte Carlo", 1992): sums of two neighbouring autocovariances, as long as
/// they are above zero and do not rise.
pub(super) fn correlation_time(values: &[f64]) -> f64 {
    let count = values.len();
    let (mean, _) = mean_and_variance(values);
    let covariance = |lag: usize| {
        let pairs = values.iter().zip(&values[lag..]);
        pairs
            .map(|(one, later)| (one - mean) * (later - mean))
            .sum::<f64>()
            / count as f64
    };
    if count < 4 || covariance(0) <= f64::EPSILON * mean * mean {
        return 1.0;
    }
    let variance = covariance(0);
    let mut sum = -variance;
    let mut last = f64::INFINITY;
    for pair in 0..count / 2 {
        let next = (covariance(2 * pair) + covariance(2 * pair + 1)).min(last);
        if next <= 0.0 {
            break;
        }
        sum += 2.0 * next;
        last = next;
    }
    (sum / variance).clamp(1.0, count as f64)
}

/// Blocks that begin anywhere and lie end to end, round the end of `count` values to their start, until
/// there are `count` indexes: what is correlated stays together.
pub(super) fn resample(count: usize, block: usize, generator: &mut Generator) -> Vec<usize> {
    let mut indexes = Vec::with_capacity(count + block);
    while indexes.len() < count {
        let start = generator.random_range(0..count);
        indexes.extend((start..start + block).map(|index| index % count));
    }
    indexes.truncate(count);
    indexes
}

/// The values between which the middle part `confidence` (0 to 1) of `values` lies; none of fewer than
/// two.
pub(super) fn middle(values: &mut [f64], confidence: f64) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let last = (values.len() - 1) as f64;
    let at = |part: f64| values[(part * last).round() as usize];
    let tail = (1.0 - confidence) / 2.0;
    Some((at(tail), at(1.0 - tail)))
}

/// Welch's interval for how far the mean of `new` is above that of `base`, at `confidence` (0 to 1):
/// the two may vary differently. None where either has fewer than two values.
pub(super) fn welch(base: &[f64], new: &[f64], confidence: f64) -> Option<(f64, f64)> {
    if base.len() < 2 || new.len() < 2 {
        return None;
    }
    let part = |values: &[f64]| {
        let (mean, variance) = mean_and_variance(values);
        let error = variance / values.len() as f64;
        (mean, error, error * error / (values.len() as f64 - 1.0))
    };
    let (base_mean, base_error, base_weight) = part(base);
    let (new_mean, new_error, new_weight) = part(new);
    let difference = new_mean - base_mean;
    let error = base_error + new_error;
    if error <= 0.0 {
        // Runs that do not differ at all: two of one seed, say.
        return Some((difference, difference));
    }
    let freedom = error * error / (base_weight + new_weight);
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let reach = student.inverse_cdf(0.5 + confidence / 2.0) * error.sqrt();
    Some((difference - reach, difference + reach))
}

/// Hedges' g: the difference of the means in standard deviations, corrected for few values. None where
/// there are fewer than two values, or nothing varies.
pub(super) fn hedges_g(base: &[f64], new: &[f64]) -> Option<f64> {
    if base.len() < 2 || new.len() < 2 {
        return None;
    }
    let (base_mean, base_variance) = mean_and_variance(base);
    let (new_mean, new_variance) = mean_and_variance(new);
    let (base_free, new_free) = (base.len() as f64 - 1.0, new.len() as f64 - 1.0);
    let free = base_free + new_free;
    let pooled = ((base_variance * base_free + new_variance * new_free) / free).sqrt();
    let correction = 1.0 - 3.0 / (4.0 * free - 1.0);
    (pooled > 0.0).then(|| correction * (new_mean - base_mean) / pooled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    /// Each value is `carry` of the last, and chance.
    fn carried(carry: f64, count: usize) -> Vec<f64> {
        let mut generator = Seed(1).generator("noise", 0);
        let mut value = 0.0;
        let mut next = || {
            value = value * carry + generator.random_range(-1.0..1.0);
            value
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn correlation_time_is_that_of_the_theory() {
        // (1 + carry) / (1 - carry) for values of which each carries over from the last.
        for (carry, theory) in [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)] {
            let found = correlation_time(&carried(carry, 20_000));
            assert!((found / theory - 1.0).abs() < 0.15, "{carry}: {found}");
        }
        assert_eq!(correlation_time(&[5.0; 100]), 1.0);
        assert_eq!(correlation_time(&[]), 1.0);
    }

    #[test]
    fn resampled_blocks_keep_neighbours_together() {
        let mut generator = Seed(1).generator("blocks", 0);
        let indexes = resample(100, 10, &mut generator);
        assert_eq!(indexes.len(), 100);
        let together = indexes.windows(2);
        let together = together.filter(|pair| (pair[0] + 1) % 100 == pair[1]);
        assert!(together.count() >= 90);
    }

    #[test]
    fn a_textbook_example_of_welch_and_hedges() {
        // Worked by hand: means 20.82 and 23, variances 8.337 and 2.5.
        let base = [17.2, 20.9, 22.6, 18.1, 21.7, 24.4];
        let new = [21.5, 22.8, 21.0, 23.0, 24.8, 24.9];
        let (low, high) = welch(&base, &new, 0.95).unwrap();
        let difference = 23.0 - 20.816_666;
        assert!(((low + high) / 2.0 - difference).abs() < 1e-4);
        assert!(low < 0.0 && high > 4.0, "{low} {high}");
        let narrow = welch(&base, &new, 0.5).unwrap();
        assert!(narrow.0 > low && narrow.1 < high);
        assert!((0.5..1.5).contains(&hedges_g(&base, &new).unwrap()));
        assert_eq!(welch(&[1.0], &new, 0.95), None);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0], 0.95), Some((1.0, 1.0)));
        assert_eq!(hedges_g(&[1.0, 1.0], &[2.0, 2.0]), None);
    }

    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_say() {
        let mut covered = 0;
        for trial in 0..400 {
            let mut generator = Seed(trial).generator("cover", 0);
            let mut draw = |shift: f64, count| -> Vec<f64> {
                let noise = (0..count).map(|_| {
                    let sum: f64 = (0..12).map(|_| generator.random_range(0.0..1.0)).sum();
                    sum - 6.0 + shift
                });
                noise.collect()
            };
            let (low, high) = welch(&draw(0.0, 5), &draw(1.0, 8), 0.9).unwrap();
            covered += u32::from(low <= 1.0 && 1.0 <= high);
        }
        assert!((340..=380).contains(&covered), "{covered} of 400");
    }
}
