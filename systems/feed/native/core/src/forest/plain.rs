//! The evaluator in plain Rust: the same arithmetic as `avx2`, row by row.

use super::{Forest, BLOCK};

pub fn score(forest: &Forest, columns: &[f32], stride: usize, scores: &mut [f64]) {
    let mut below = vec![0u8; forest.features];
    for (row, score) in scores.iter_mut().enumerate() {
        for (feature, borders) in forest.borders.iter().enumerate() {
            let value = columns[feature * stride + row];
            below[feature] = borders.iter().filter(|&&border| value > border).count() as u8;
        }
        *score = forest.score(
            forest
                .trees
                .iter()
                .map(|tree| u64::from(tree.number(&below)))
                .sum(),
        );
    }
}

impl super::Tree {
    /// The leaf's fixed-point number of a row; `below` = how many borders lie below each of its values.
    fn number(&self, below: &[u8]) -> u32 {
        let mut leaf = 0;
        for (level, (&start, &threshold)) in self.starts.iter().zip(&self.thresholds).enumerate() {
            leaf |= usize::from(below[start as usize / BLOCK] > threshold) << level;
        }
        u32::from_le_bytes(self.planes.each_ref().map(|plane| plane[leaf]))
    }
}
