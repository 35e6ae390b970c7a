//! Features of many items, column-major, as CatBoost reads them without a copy.

use crate::features::{self, Row};
use crate::forest::BLOCK;
use crate::item::Item;
use crate::layout::FEATURE_COUNT;
use crate::logs::Logs;
use crate::viewer::Viewer;

/// Features of up to BLOCK items: column-major with a stride of BLOCK. Small enough for the first-level cache.
pub struct Block([[f32; BLOCK]; FEATURE_COUNT]);

impl Default for Block {
    fn default() -> Self {
        Self([[0.0; BLOCK]; FEATURE_COUNT])
    }
}

impl Block {
    /// Writes the features of `item` at `row`.
    pub fn set(&mut self, row: usize, item: &Item, viewer: &Viewer, logs: &Logs) {
        features::write(item, viewer, logs, &mut Line { block: self, row });
    }

    pub fn columns(&self) -> &[f32] {
        self.0.as_flattened()
    }
}

struct Line<'a> {
    block: &'a mut Block,
    row: usize,
}

impl Row for Line<'_> {
    #[inline]
    fn put(&mut self, feature: usize, value: f32) {
        self.block.0[feature][self.row] = value;
    }
}

/// Features of items, and which items they are.
pub struct Matrix {
    /// FEATURE_COUNT columns of `items.len()` values.
    pub columns: Vec<f32>,
    /// The item of each row.
    pub items: Vec<Found>,
    /// Values that were no item.
    pub unreadable: usize,
}

impl Matrix {
    /// Of stored values; a value that is absent (None) or unreadable has no row.
    pub fn new(values: &[Option<&[u8]>], viewer: &Viewer) -> Self {
        let mut matrix = Self {
            columns: vec![0.0; values.len() * FEATURE_COUNT],
            items: Vec::with_capacity(values.len()),
            unreadable: 0,
        };
        each_block(values, viewer, &mut matrix.unreadable, |block, rows| {
            let first = matrix.items.len();
            for (column, to) in block
                .0
                .iter()
                .zip(matrix.columns.chunks_exact_mut(values.len()))
            {
                to[first..first + rows.len()].copy_from_slice(&column[..rows.len()]);
            }
            matrix.items.extend_from_slice(rows);
        });
        matrix.close_up(values.len());
        matrix
    }

    /// Takes out the room that was left in each column for values that turned out to be no items.
    fn close_up(&mut self, stride: usize) {
        let rows = self.items.len();
        if rows < stride {
            for feature in 1..FEATURE_COUNT {
                self.columns
                    .copy_within(feature * stride..feature * stride + rows, feature * rows);
            }
            self.columns.truncate(rows * FEATURE_COUNT);
        }
    }
}

/// One row of a block: which item, which of the given values, and what the rules look at.
#[derive(Clone, Copy)]
pub struct Found {
    pub item_id: u32,
    pub place: u32,
    pub seller_id: u32,
    /// Index into CATEGORIES, or CATEGORY_COUNT.
    pub category: u8,
    /// Level of the paid boost that is in force.
    pub boost: u8,
    pub is_older: bool,
}

impl Found {
    fn new(item: &Item, place: usize, viewer: &Viewer) -> Self {
        let in_force = i64::from(item.boost_until_s) > viewer.now_s;
        Self {
            item_id: item.item_id,
            place: place as u32,
            seller_id: item.seller_id,
            category: item.category as u8,
            boost: if in_force { item.boost } else { 0 },
            is_older: item.is_older,
        }
    }
}

/// Computes features block by block and gives each block with its rows to `then`.
pub fn each_block(
    values: &[Option<&[u8]>],
    viewer: &Viewer,
    unreadable: &mut usize,
    mut then: impl FnMut(&Block, &[Found]),
) {
    let logs = Logs::get();
    let mut block = Block::default();
    let mut rows = Vec::with_capacity(BLOCK);
    for (place, value) in values.iter().enumerate() {
        let Some(bytes) = value else { continue };
        let Some(item) = Item::from_record(bytes) else {
            *unreadable += 1;
            continue;
        };
        block.set(rows.len(), &item, viewer, logs);
        rows.push(Found::new(&item, place, viewer));
        if rows.len() == BLOCK {
            then(&block, &rows);
            rows.clear();
        }
    }
    if !rows.is_empty() {
        then(&block, &rows);
    }
}
