//! Which items are ranked; the twin of candidates.py.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use feed_core::layout::{MOST, MOST_ACTIVE};
use serde::Deserialize;

use crate::user::User;

/// What one first-level model answered.
#[derive(Clone, Default, Deserialize)]
pub struct Named {
    pub ids: Vec<u32>,
    pub scores: Vec<f64>,
}

/// The ids to rank: most of them, by the sum of the models' scores, highest first, ties by id. `answers` are in the
/// order of the models: sums of floats depend on it.
pub fn chosen(answers: &[Option<Named>], user: &User) -> Vec<u32> {
    let mut scores: HashMap<u32, f64, BuildHasherDefault<Spread>> = HashMap::default();
    for named in answers.iter().flatten() {
        for (id, score) in named.ids.iter().zip(&named.scores) {
            *scores.entry(*id).or_insert(0.0) += score;
        }
    }
    for id in &user.seen {
        scores.remove(id);
    }
    let mut found: Vec<(u32, f64)> = scores.into_iter().collect();
    found.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    found.truncate(if user.active { MOST_ACTIVE } else { MOST });
    found.into_iter().map(|item| item.0).collect()
}

/// Spreads ids, which are numbers in a row, over a table: nobody outside chooses them.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only ids are hashed");
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
