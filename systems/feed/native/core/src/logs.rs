//! log(1 + n) of whole numbers: most are small and come from a table that the library's own function fills.

use std::sync::OnceLock;

/// Above, the function is called: 128 kB of table stay in the second-level cache, and few counters are larger.
const TABLE: usize = 1 << 15;

pub struct Logs(Box<[f32]>);

impl Logs {
    /// The table, made at the first call (about 0.3 ms).
    pub fn get() -> &'static Self {
        static LOGS: OnceLock<Logs> = OnceLock::new();
        LOGS.get_or_init(|| {
            Self(
                (0..TABLE as u32)
                    .map(|n| f64::from(n).ln_1p() as f32)
                    .collect(),
            )
        })
    }

    pub fn log1p(&self, n: u32) -> f32 {
        match self.0.get(n as usize) {
            Some(&log) => log,
            None => f64::from(n).ln_1p() as f32,
        }
    }

    /// Of a number that may not be whole or not known.
    pub fn log1p_of(&self, value: f64) -> f32 {
        let whole = value as u32;
        if f64::from(whole) == value {
            self.log1p(whole)
        } else {
            value.ln_1p() as f32
        }
    }
}
