//! A figure with its spread.

use serde::{Deserialize, Serialize};

/// The median of many rounds, with the tenth and the ninetieth percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |share| rounded(quantile(&values, share));
        Spread { median: at(0.5), p10: at(0.1), p90: at(0.9) }
    }

    /// Of a figure of each round.
    pub(crate) fn by<T>(own: &[T], figure: fn(&T) -> f64) -> Spread {
        Spread::of(own.iter().map(figure).collect())
    }

    /// Of the ratios of a figure to the same figure of a base, round by round.
    pub(crate) fn ratio<T>(own: &[T], base: &[T], figure: fn(&T) -> f64) -> Spread {
        Spread::of(own.iter().zip(base).map(|(own, base)| figure(own) / figure(base)).collect())
    }
}

/// The value below which this share of the sorted values lies, between two neighbours in proportion.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    assert!(!sorted.is_empty(), "no values were measured");
    let position = share * (sorted.len() - 1) as f64;
    let (low, part) = (position.floor() as usize, position.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * part
}

/// To four significant digits: more would only be noise in the stored results.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let spread = Spread::of(vec![4.0, 1.0, 3.0, 2.0, 5.0]);
        assert_eq!(spread, Spread { median: 3.0, p10: 1.4, p90: 4.6 });
        assert_eq!(Spread::of(vec![7.0]), Spread { median: 7.0, p10: 7.0, p90: 7.0 });
    }

    #[test]
    fn results_have_four_digits() {
        assert_eq!(rounded(1234.567), 1235.0);
        assert_eq!(rounded(0.000_123_456), 0.000_123_5);
    }
}
