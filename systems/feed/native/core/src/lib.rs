//! What decides a feed's order, once: the features of an item and the model's evaluator. Knows no Python and no network.

pub mod asking;
pub mod candidates;
pub mod features;
pub mod forest;
pub mod item;
pub mod layout;
mod logs;
pub mod matrix;
pub mod ranking;
pub mod resp;
pub mod rules;
pub mod viewer;
