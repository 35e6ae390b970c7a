//! How throughput grows with the number in progress, fitted to what was measured: the Universal Scalability Law.
//!
//! X(N) = λ N / (1 + σ (N - 1) + κ N (N - 1)) (Gunther 2007). σ: the share that cannot run beside others; κ: what each
//! pair costs (a lock handed on, caches, an allocator). Bounds and mean values know no κ: where throughput falls again
//! with more in progress, only this shows it. It is a curve through points, no cause; beyond the largest N measured it is a
//! guess.

/// A fitted law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usl {
    /// λ: throughput of one alone.
    pub alone: f64,
    /// σ, at least 0.
    pub contention: f64,
    /// κ, at least 0.
    pub coherency: f64,
    /// Root mean square of the relative errors of throughput.
    pub error_frac: f64,
}

impl Usl {
    /// Least squares of the relative errors of N / X, which is linear in 1/λ, σ/λ and κ/λ; none of them negative.
    ///
    /// `None`: fewer than three different N, or something that is not positive.
    pub fn fitted(points: &[(f64, f64)]) -> Option<Self> {
        if points.iter().any(|(number, per)| {
            !(*number > 0.0 && *per > 0.0 && number.is_finite() && per.is_finite())
        }) {
            return None;
        }
        let mut numbers: Vec<f64> = points.iter().map(|(number, _)| *number).collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        if numbers.len() < 3 {
            return None;
        }
        // All three, or without those that would be negative: of what is allowed, what errs least.
        let kept = [[true, true], [true, false], [false, true], [false, false]];
        let tried = kept.iter().filter_map(|kept| Self::with(points, *kept));
        tried.min_by(|one, other| one.error_frac.total_cmp(&other.error_frac))
    }

    /// Throughput with `number` in progress.
    pub fn at(&self, number: f64) -> f64 {
        let beside = number - 1.0;
        self.alone * number / (1.0 + self.contention * beside + self.coherency * number * beside)
    }

    /// The number with the most throughput: √((1 - σ) / κ), at least 1; infinite when it only ever grows.
    pub fn peak(&self) -> f64 {
        if self.contention >= 1.0 {
            1.0
        } else if self.coherency > 0.0 {
            ((1.0 - self.contention) / self.coherency).sqrt().max(1.0)
        } else {
            f64::INFINITY
        }
    }

    /// What throughput never exceeds: that at the peak, or λ / σ without one; infinite without either.
    pub fn most(&self) -> f64 {
        let peak = self.peak();
        if peak.is_finite() {
            self.at(peak)
        } else if self.contention > 0.0 {
            self.alone / self.contention
        } else {
            f64::INFINITY
        }
    }

    fn with(points: &[(f64, f64)], [contention, coherency]: [bool; 2]) -> Option<Self> {
        let columns: Vec<usize> = [(0, true), (1, contention), (2, coherency)]
            .iter()
            .filter_map(|(column, kept)| kept.then_some(*column))
            .collect();
        // Normal equations of: the terms times X / N are 1.
        let mut square = [[0.0; 3]; 3];
        let mut right = [0.0; 3];
        for (number, per) in points {
            let scale = per / number;
            let terms = [
                scale,
                scale * (number - 1.0),
                scale * number * (number - 1.0),
            ];
            for row in &columns {
                right[*row] += terms[*row];
                for column in &columns {
                    square[*row][*column] += terms[*row] * terms[*column];
                }
            }
        }
        let [first, second, third] = solved(square, right, &columns)?;
        if first <= 0.0 || second < 0.0 || third < 0.0 {
            return None;
        }
        let mut found = Self {
            alone: 1.0 / first,
            contention: second / first,
            coherency: third / first,
            error_frac: 0.0,
        };
        let errors = points
            .iter()
            .map(|(number, per)| (found.at(*number) / per - 1.0).powi(2));
        found.error_frac = (errors.sum::<f64>() / points.len() as f64).sqrt();
        Some(found)
    }
}

/// Solves the equations of `columns` by elimination with pivots; the other unknowns are 0. `None`: not determined.
fn solved(mut square: [[f64; 3]; 3], mut right: [f64; 3], columns: &[usize]) -> Option<[f64; 3]> {
    let size = columns.len();
    let mut rows = columns.to_vec();
    for step in 0..size {
        let column = columns[step];
        let best = (step..size).max_by(|one, other| {
            square[rows[*one]][column]
                .abs()
                .total_cmp(&square[rows[*other]][column].abs())
        })?;
        rows.swap(step, best);
        let pivot = square[rows[step]][column];
        if pivot.abs() < 1e-300 {
            return None;
        }
        for lower in step + 1..size {
            let factor = square[rows[lower]][column] / pivot;
            for right_of in &columns[step..] {
                square[rows[lower]][*right_of] -= factor * square[rows[step]][*right_of];
            }
            right[rows[lower]] -= factor * right[rows[step]];
        }
    }
    let mut found = [0.0; 3];
    for step in (0..size).rev() {
        let known: f64 = columns[step + 1..]
            .iter()
            .map(|column| square[rows[step]][*column] * found[*column])
            .sum();
        found[columns[step]] = (right[rows[step]] - known) / square[rows[step]][columns[step]];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(alone: f64, contention: f64, coherency: f64) -> Vec<(f64, f64)> {
        let law = Usl {
            alone,
            contention,
            coherency,
            error_frac: 0.0,
        };
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
            .map(|number| (number, law.at(number)))
            .to_vec()
    }

    #[test]
    fn what_follows_the_law_is_found_again() {
        let found = Usl::fitted(&made(16.5, 0.02, 0.0005)).unwrap();
        assert!((found.alone - 16.5).abs() < 1e-6 && found.error_frac < 1e-9);
        assert!((found.contention - 0.02).abs() < 1e-8 && (found.coherency - 0.0005).abs() < 1e-10);
        assert!((found.peak() - (0.98f64 / 0.0005).sqrt()).abs() < 1e-3);
        assert!(found.at(found.peak()) >= found.at(found.peak() + 1.0));
    }

    #[test]
    fn what_only_grows_has_no_peak() {
        let found = Usl::fitted(&made(10.0, 0.1, 0.0)).unwrap();
        assert!(
            found.peak() > 1e3 && (found.most() - 100.0).abs() < 1.0,
            "{found:?}"
        );
        let linear = Usl::fitted(&made(10.0, 0.0, 0.0)).unwrap();
        assert!((linear.at(64.0) - 640.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_negative_comes_out() {
        // Better than linear: caches.
        let found = Usl::fitted(&[(1.0, 10.0), (2.0, 22.0), (4.0, 48.0)]).unwrap();
        assert!(found.contention >= 0.0 && found.coherency >= 0.0);
        assert!(found.error_frac > 0.05);
    }

    #[test]
    fn too_little_is_said() {
        assert!(Usl::fitted(&[(1.0, 10.0), (2.0, 19.0), (2.0, 18.0)]).is_none());
        assert!(Usl::fitted(&[(1.0, 10.0), (2.0, 0.0), (4.0, 30.0)]).is_none());
        assert!(Usl::fitted(&[]).is_none());
    }
}
