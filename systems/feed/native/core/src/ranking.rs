//! From stored values to an order: features, scores and the sort, without a matrix in between.

use crate::forest::{Forest, BLOCK};
use crate::item::Form;
use crate::matrix::each_block;
use crate::viewer::Viewer;

/// Items by falling score; equal scores by rising item id.
pub struct Ranking {
    pub ids: Vec<u32>,
    pub scores: Vec<f64>,
    /// Which of the given values each is.
    pub places: Vec<u32>,
    /// Values that were no item.
    pub unreadable: usize,
}

struct Scored {
    /// Falling scores as rising whole numbers, then the item id.
    key: (u64, u32),
    place: u32,
}

impl Ranking {
    /// Of stored values; a value that is absent or unreadable is left out.
    pub fn new(form: Form, values: &[Option<&[u8]>], viewer: &Viewer, forest: &Forest) -> Self {
        let mut unreadable = 0;
        let mut scored = Vec::with_capacity(values.len());
        let mut scores = [0.0; BLOCK];
        let mut scorer = forest.scorer();
        each_block(form, values, viewer, &mut unreadable, |block, rows| {
            scorer.score(block.columns(), &mut scores);
            scored.extend(rows.iter().zip(scores).map(|(row, score)| Scored {
                key: (falling(score), row.id),
                place: row.place,
            }));
        });
        scored.sort_unstable_by_key(|item| item.key);
        Self {
            ids: scored.iter().map(|item| item.key.1).collect(),
            scores: scored.iter().map(|item| score_of(item.key.0)).collect(),
            places: scored.iter().map(|item| item.place).collect(),
            unreadable,
        }
    }
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
