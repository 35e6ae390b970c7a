//! Which items are ranked; the twin of `chosen` in user.py.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use serde::Deserialize;

/// What one first-level model answered: a score for each id.
#[derive(Clone, Default, Deserialize)]
pub struct Named {
    pub ids: Vec<u32>,
    pub scores: Vec<f64>,
}

impl Named {
    /// Of a model's JSON; an error says what is wrong with it.
    pub fn from_json(text: &[u8]) -> Result<Self, String> {
        let named: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if named.ids.len() != named.scores.len() {
            return Err(format!(
                "{} ids, {} scores",
                named.ids.len(),
                named.scores.len()
            ));
        }
        Ok(named)
    }
}

/// The ids to rank: the first `most` by the sum of the models' scores, highest first, ties by id, without those that
/// were `seen`. `answers` are in the order of the models: sums of floats depend on it.
pub fn chosen(answers: &[Option<Named>], seen: &[u32], most: usize) -> Vec<u32> {
    let mut scores: HashMap<u32, f64, BuildHasherDefault<Spread>> = HashMap::default();
    for named in answers.iter().flatten() {
        for (id, score) in named.ids.iter().zip(&named.scores) {
            *scores.entry(*id).or_insert(0.0) += score;
        }
    }
    for id in seen {
        scores.remove(id);
    }
    let mut found: Vec<(u32, f64)> = scores.into_iter().collect();
    found.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    found.truncate(most);
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
