//! From stored values to an order: features, scores and the sort, without a matrix in between.

use std::time::Instant;

use crate::forest::{Forest, BLOCK};
use crate::matrix::{each_block, Found};
use crate::viewer::Viewer;

/// Items by falling score; equal scores by rising item id.
pub struct Ranking {
    pub items: Vec<Found>,
    pub scores: Vec<f64>,
    /// Values that were no item.
    pub unreadable: usize,
    /// Items that an older version stored: what they lack counts as not known.
    pub older: usize,
    pub spent: Spent,
}

/// A score that rises as scores fall, the item's id, where it was found.
type Key = (u64, u32, u32);

/// CPU that a ranking took, ns: shares of the thread's CPU time, by the clock on the wall.
#[derive(Clone, Copy, Default)]
pub struct Spent {
    /// Reading items and computing features.
    pub features_ns: u64,
    pub predict_ns: u64,
    pub sort_ns: u64,
}

impl Ranking {
    /// Of stored values; a value that is absent or unreadable is left out.
    pub fn new(values: &[Option<&[u8]>], viewer: &Viewer, forest: &Forest) -> Self {
        let mut unreadable = 0;
        let mut found = Vec::with_capacity(values.len());
        let mut keys = Vec::with_capacity(values.len());
        let mut scores = [0.0; BLOCK];
        let mut scorer = forest.scorer();
        let mut spent = Spent::default();
        let (began, cpu_ns) = (Instant::now(), thread_cpu_ns());
        each_block(values, viewer, &mut unreadable, |block, rows| {
            let predicts = Instant::now();
            scorer.score(block.columns(), &mut scores);
            for (row, &score) in rows.iter().zip(&scores) {
                keys.push((falling(score), row.item_id, found.len() as u32));
                found.push(*row);
            }
            spent.predict_ns += elapsed_ns(predicts);
        });
        spent.features_ns = elapsed_ns(began) - spent.predict_ns;
        let made = Self {
            unreadable,
            ..Self::sorted(&found, keys, spent)
        };
        let spent = made.spent.scaled(thread_cpu_ns() - cpu_ns);
        Self { spent, ..made }
    }

    /// Of items whose scores somebody else has computed, in the order of the items.
    pub fn of_scores(found: &[Found], scores: &[f64]) -> Self {
        let key = |(at, (item, &score)): (usize, (&Found, &f64))| {
            (falling(score), item.item_id, at as u32)
        };
        let keys = found.iter().zip(scores).enumerate().map(key).collect();
        Self::sorted(found, keys, Spent::default())
    }

    fn sorted(found: &[Found], mut keys: Vec<Key>, mut spent: Spent) -> Self {
        let began = Instant::now();
        keys.sort_unstable();
        let items = keys.iter().map(|key| found[key.2 as usize]).collect();
        let scores = keys.iter().map(|key| score_of(key.0)).collect();
        spent.sort_ns = elapsed_ns(began);
        let older = found.iter().filter(|item| item.is_older).count();
        Self {
            items,
            scores,
            unreadable: 0,
            older,
            spent,
        }
    }
}

impl Spent {
    /// The same shares of this sum: a thread that had to wait for a processor has not computed meanwhile.
    fn scaled(self, sum_ns: u64) -> Self {
        let all_ns = (self.features_ns + self.predict_ns + self.sort_ns).max(1);
        let share = |part_ns: u64| (part_ns as u128 * sum_ns as u128 / all_ns as u128) as u64;
        Self {
            features_ns: share(self.features_ns),
            predict_ns: share(self.predict_ns),
            sort_ns: share(self.sort_ns),
        }
    }
}

fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists on Linux and `time` is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn elapsed_ns(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

const SIGN: u64 = 1 << 63;

/// A whole number that is the larger the smaller the score.
fn falling(score: f64) -> u64 {
    // 0.0 and -0.0 are one score.
    let bits = (score + 0.0).to_bits();
    if bits & SIGN == 0 {
        !(bits | SIGN)
    } else {
        bits
    }
}

fn score_of(falling: u64) -> f64 {
    f64::from_bits(if falling & SIGN == 0 {
        !falling & !SIGN
    } else {
        falling
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_fall_as_their_keys_rise_and_come_back() {
        let falling_scores = [f64::MAX, 3.0, 1e-300, 0.0, -1e-300, -2.5, f64::MIN];
        for pair in falling_scores.windows(2) {
            assert!(falling(pair[0]) < falling(pair[1]), "{pair:?}");
        }
        for score in falling_scores {
            assert_eq!(score_of(falling(score)), score);
        }
        assert_eq!(falling(-0.0), falling(0.0));
    }
}
