//! The user for whom items are ranked, at one time: what is the same for all items is prepared once.

use crate::layout::*;

/// Made of `User.packed()` of user.py and a Unix time.
pub struct Viewer {
    pub now_s: i64,
    pub latitude: f64,
    pub longitude: f64,
    /// Kilometres east per degree, as a share of those north.
    pub longitude_share: f64,
    pub mean_price: f64,
    pub delivery_share: f64,
    /// By index into CATEGORIES; the last stands for a category that is none of them: 0.
    pub categories: [f64; CATEGORY_COUNT + 1],
    pub topics: [f64; TOPIC_COUNT],
    pub topics_square: f64,
    /// 0 = none.
    pub words: [u32; MOST_WORDS],
    /// Only the first `seller_count` are sellers.
    pub sellers: [u32; MOST_SELLERS],
    pub seller_count: usize,
}

impl Viewer {
    /// None when it is not USER_BYTES long.
    pub fn new(packed: &[u8], now_s: i64) -> Option<Self> {
        if packed.len() != USER_BYTES {
            return None;
        }
        let mut rest = packed;
        let [latitude, longitude, mean_price, delivery_share] = f64s(&mut rest);
        let weights: [f64; CATEGORY_COUNT] = f64s(&mut rest);
        let topics: [f64; TOPIC_COUNT] = f64s(&mut rest);
        let words = u32s(&mut rest);
        let sellers = u32s(&mut rest);
        let [_city, _words, seller_count] = u32s(&mut rest);
        let mut categories = [0.0; CATEGORY_COUNT + 1];
        categories[..CATEGORY_COUNT].copy_from_slice(&weights);
        Some(Self {
            now_s,
            latitude,
            longitude,
            longitude_share: (latitude * (std::f64::consts::PI / 180.0)).cos(),
            mean_price,
            delivery_share,
            categories,
            topics,
            topics_square: topics.iter().map(|topic| topic * topic).sum(),
            words,
            sellers,
            seller_count: (seller_count as usize).min(MOST_SELLERS),
        })
    }

    pub fn knows_seller(&self, seller: u32) -> bool {
        self.sellers[..self.seller_count].contains(&seller)
    }
}

fn taken<'a, const N: usize>(rest: &mut &'a [u8]) -> &'a [u8; N] {
    let (first, others) = rest.split_first_chunk().expect("the length was checked");
    *rest = others;
    first
}

fn f64s<const N: usize>(rest: &mut &[u8]) -> [f64; N] {
    std::array::from_fn(|_| f64::from_le_bytes(*taken(rest)))
}

fn u32s<const N: usize>(rest: &mut &[u8]) -> [u32; N] {
    std::array::from_fn(|_| u32::from_le_bytes(*taken(rest)))
}
