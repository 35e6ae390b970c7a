//! The ranking model: CatBoost's oblivious trees, evaluated 32 rows at once.
//!
//! Three thoughts make it fast. A feature's value is replaced by how many of the model's borders lie below it (one byte,
//! done once a row), so that a split is a comparison of bytes. A tree of depth 6 has 64 leaves: its table lies in
//! registers and is looked up by byte shuffles, not by gathers from memory. Leaves are fixed-point numbers of four
//! bytes, so a table of leaves is four tables of bytes, and sums are sums of integers.
//!
//! Integer sums have no order: AVX2 and the plain code give the same bits on each machine. The price is a rounding that
//! `Forest::error_bound` states (about 7e-9 for 500 trees whose leaves span 0.12); a model with a larger bound than
//! `TOLERANCE` is refused.

use std::fmt;

use serde::Deserialize;

#[cfg(target_arch = "x86_64")]
mod avx2;
mod plain;

/// Rows that are evaluated together; the last block of a matrix is filled up with zeros.
pub const BLOCK: usize = 32;
/// Most splits of one tree: its leaves are looked up in tables of 64 bytes.
pub const DEPTH: usize = 6;
const LEAVES: usize = 1 << DEPTH;
/// Bytes of a leaf's fixed-point number.
const PLANES: usize = 4;
const LARGEST: f64 = (1u64 << (8 * PLANES)) as f64 - 1.0;
/// No row has this many borders below: a split that is never true. Trees with fewer than six splits are filled with it.
const NEVER: u8 = 255;
/// Sums of bytes are kept in 16 bits for up to this many trees: 256 x 255 < 2^16.
const TREES_PER_SUM: usize = 256;
/// What two evaluators of one model may differ by, and the largest `error_bound` of a model that is accepted.
pub const TOLERANCE: f64 = 1e-5;

/// One tree: six comparisons of a byte, three tables of 64 bytes.
#[repr(C, align(64))]
struct Tree {
    /// Byte `plane` of each leaf's number.
    planes: [[u8; LEAVES]; PLANES],
    /// Where the split's feature lies in a block of borders counted: feature x BLOCK.
    starts: [u32; DEPTH],
    /// True when more than this many borders lie below the value.
    thresholds: [u8; DEPTH],
}

/// A model as CatBoost writes it with `save_model(…, format="json")`: oblivious trees over float features.
pub struct Forest {
    /// Columns of the matrix that the model was trained on.
    features: usize,
    /// Per column the borders that some tree splits at, ascending.
    borders: Vec<Vec<f32>>,
    trees: Vec<Tree>,
    /// Score = sum of numbers x step + start.
    step: f64,
    start: f64,
    error_bound: f64,
    metadata: serde_json::Map<String, serde_json::Value>,
}

/// Why a model cannot be evaluated: what was found where, and what is expected.
#[derive(Debug)]
pub struct ModelError(String);

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ModelError {}

impl Forest {
    /// Reads the model's JSON. Cost: about 20 ms for 500 trees.
    pub fn from_json(text: &[u8]) -> Result<Self, ModelError> {
        let model: Document = serde_json::from_slice(text).map_err(|error| {
            ModelError(format!(
                "read model: {error}, expected CatBoost's JSON format"
            ))
        })?;
        let features = model.features_info.float_features.len();
        if features == 0 {
            return refuse("float features", 0, "at least one");
        }
        check_columns(&model.features_info)?;
        let borders = used_borders(&model, features)?;
        let span = model
            .oblivious_trees
            .iter()
            .map(TreeDocument::span)
            .fold(0.0, f64::max);
        let step = if span > 0.0 { span / LARGEST } else { 1.0 };
        let (scale, biases) = &model.scale_and_bias;
        let [bias] = biases[..] else {
            return refuse(
                "scale_and_bias",
                biases.len(),
                "one bias: a model with one score",
            );
        };
        let error_bound = model.oblivious_trees.len() as f64 * step / 2.0 * scale.abs();
        if error_bound > TOLERANCE {
            return refuse(
                "leaf values",
                span,
                "trees whose leaves span so little that rounding stays below 1e-5",
            );
        }
        let least: f64 = model.oblivious_trees.iter().map(TreeDocument::least).sum();
        let trees = model
            .oblivious_trees
            .iter()
            .map(|tree| tree.compiled(&borders, step))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            features,
            borders,
            trees,
            step: step * scale,
            start: least * scale + bias,
            error_bound,
            metadata: model.model_info,
        })
    }

    /// Columns that `predict` expects.
    pub fn features(&self) -> usize {
        self.features
    }

    pub fn trees(&self) -> usize {
        self.trees.len()
    }

    /// Proven: no score differs by more from the exact sum of leaves.
    pub fn error_bound(&self) -> f64 {
        self.error_bound
    }

    /// What training stored with the model under `key`; CatBoost keeps such pairs of text with a model.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).and_then(serde_json::Value::as_str)
    }

    /// Scores of `scores.len()` rows; `columns` is column-major, `features` x rows.
    ///
    /// A value that is not a number lies above no border, which is how CatBoost trains with `nan_mode="Min"`.
    /// Cost: about 0.5 ms for 3,000 rows, 60 features, 500 trees of depth 6 with AVX2.
    pub fn predict(&self, columns: &[f32], scores: &mut [f64]) {
        let rows = scores.len();
        assert_eq!(
            columns.len(),
            rows * self.features,
            "a column per feature, a value per row"
        );
        let mut scorer = self.scorer();
        let whole = rows - rows % BLOCK;
        for first in (0..whole).step_by(BLOCK) {
            let scores = scores[first..].first_chunk_mut().expect("a whole block");
            scorer.score_strided(&columns[first..], rows, scores);
        }
        if whole < rows {
            let mut tail = vec![0.0; self.features * BLOCK];
            for (feature, to) in tail.chunks_exact_mut(BLOCK).enumerate() {
                to[..rows - whole]
                    .copy_from_slice(&columns[feature * rows + whole..(feature + 1) * rows]);
            }
            let mut last = [0.0; BLOCK];
            scorer.score(&tail, &mut last);
            scores[whole..].copy_from_slice(&last[..rows - whole]);
        }
    }

    /// The same without AVX2: what other processors run, and the reference of the tests.
    pub fn predict_plain(&self, columns: &[f32], scores: &mut [f64]) {
        assert_eq!(
            columns.len(),
            scores.len() * self.features,
            "a column per feature, a value per row"
        );
        let rows = scores.len();
        plain::score(self, columns, rows, scores);
    }

    /// Scores blocks of rows, one after the other.
    pub fn scorer(&self) -> Scorer<'_> {
        #[cfg(target_arch = "x86_64")]
        let with_avx2 = std::arch::is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        let with_avx2 = false;
        Scorer {
            forest: self,
            below: vec![0; self.features * BLOCK],
            with_avx2,
        }
    }

    fn score(&self, sum: u64) -> f64 {
        sum as f64 * self.step + self.start
    }
}

/// A model with the room that a block of rows needs.
pub struct Scorer<'a> {
    forest: &'a Forest,
    /// How many borders lie below each value: column-major, BLOCK rows.
    below: Vec<u8>,
    with_avx2: bool,
}

impl Scorer<'_> {
    /// Scores of BLOCK rows; `columns` is column-major, `features` x BLOCK.
    pub fn score(&mut self, columns: &[f32], scores: &mut [f64; BLOCK]) {
        self.score_strided(columns, BLOCK, scores);
    }

    /// Scores of BLOCK rows; from the begin of a column to that of the next are `stride` values.
    fn score_strided(&mut self, columns: &[f32], stride: usize, scores: &mut [f64; BLOCK]) {
        assert!(
            columns.len() >= (self.forest.features - 1) * stride + BLOCK,
            "a column per feature"
        );
        #[cfg(target_arch = "x86_64")]
        if self.with_avx2 {
            // SAFETY: the processor has AVX2; the last column has BLOCK values, so each column before has.
            unsafe { avx2::score(self.forest, columns, stride, &mut self.below, scores) };
            return;
        }
        plain::score(self.forest, columns, stride, scores);
    }
}

#[derive(Deserialize)]
struct Document {
    features_info: FeaturesDocument,
    #[serde(default)]
    model_info: serde_json::Map<String, serde_json::Value>,
    oblivious_trees: Vec<TreeDocument>,
    scale_and_bias: (f64, Vec<f64>),
}

#[derive(Deserialize)]
struct FeaturesDocument {
    float_features: Vec<ColumnDocument>,
    #[serde(default)]
    categorical_features: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct ColumnDocument {
    flat_feature_index: usize,
    nan_value_treatment: String,
}

#[derive(Deserialize)]
struct TreeDocument {
    leaf_values: Vec<f64>,
    #[serde(default)]
    splits: Option<Vec<SplitDocument>>,
}

#[derive(Deserialize)]
struct SplitDocument {
    #[serde(default)]
    border: f64,
    #[serde(default)]
    float_feature_index: usize,
    split_type: String,
}

impl TreeDocument {
    fn splits(&self) -> &[SplitDocument] {
        self.splits.as_deref().unwrap_or_default()
    }

    fn least(&self) -> f64 {
        self.leaf_values
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min)
    }

    /// Between the least and the largest leaf.
    fn span(&self) -> f64 {
        self.leaf_values
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max)
            - self.least()
    }

    fn compiled(&self, borders: &[Vec<f32>], step: f64) -> Result<Tree, ModelError> {
        let splits = self.splits();
        if self.leaf_values.len() != 1 << splits.len() {
            return refuse(
                "leaf values of a tree",
                self.leaf_values.len(),
                "2 to the power of its splits: one score a leaf",
            );
        }
        let mut tree = Tree {
            planes: [[0; LEAVES]; PLANES],
            starts: [0; DEPTH],
            thresholds: [NEVER; DEPTH],
        };
        for (level, split) in splits.iter().enumerate() {
            let column = &borders[split.float_feature_index];
            tree.starts[level] = (split.float_feature_index * BLOCK) as u32;
            // The value is above this border when more borders lie below it than before the border.
            tree.thresholds[level] =
                column.partition_point(|&border| border < split.border as f32) as u8;
        }
        let least = self.least();
        for (leaf, value) in self.leaf_values.iter().enumerate() {
            let bytes = (((value - least) / step).round() as u32).to_le_bytes();
            for (plane, byte) in tree.planes.iter_mut().zip(bytes) {
                plane[leaf] = byte;
            }
        }
        Ok(tree)
    }
}

fn refuse<T>(what: &str, found: impl fmt::Display, expected: &str) -> Result<T, ModelError> {
    Err(ModelError(format!(
        "read model: {what}={found}, expected {expected}"
    )))
}

fn check_columns(features: &FeaturesDocument) -> Result<(), ModelError> {
    if !features.categorical_features.is_empty() {
        return refuse(
            "categorical features",
            features.categorical_features.len(),
            "float features only",
        );
    }
    for (index, column) in features.float_features.iter().enumerate() {
        if column.flat_feature_index != index {
            return refuse(
                "flat_feature_index",
                column.flat_feature_index,
                "columns in order",
            );
        }
        if column.nan_value_treatment == "AsTrue" {
            return refuse("nan_value_treatment", "AsTrue", "nan_mode Min or Forbidden");
        }
    }
    Ok(())
}

fn used_borders(model: &Document, features: usize) -> Result<Vec<Vec<f32>>, ModelError> {
    let mut borders = vec![Vec::new(); features];
    for tree in &model.oblivious_trees {
        if tree.splits().len() > DEPTH {
            return refuse("splits of a tree", tree.splits().len(), "at most 6");
        }
        for split in tree.splits() {
            if split.split_type != "FloatFeature" || split.float_feature_index >= features {
                return refuse(
                    "split_type",
                    &split.split_type,
                    "FloatFeature of a known column",
                );
            }
            borders[split.float_feature_index].push(split.border as f32);
        }
    }
    for column in &mut borders {
        column.sort_by(f32::total_cmp);
        column.dedup();
        if column.len() >= usize::from(NEVER) {
            return refuse(
                "borders of a feature",
                column.len(),
                "at most 254 (border_count)",
            );
        }
    }
    Ok(borders)
}
