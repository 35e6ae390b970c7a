//! What is known of a user, as user.py has it.

use std::collections::BTreeMap;

use feed_core::item::word_code;
use feed_core::layout::{
    CATEGORIES, CITY_COUNT, MOST_SELLERS, MOST_WORDS, TOPIC_COUNT, USER_BYTES,
};
use feed_core::viewer::Viewer;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub struct User {
    pub user_id: u64,
    pub city: String,
    pub latitude: f64,
    pub longitude: f64,
    pub mean_price: f64,
    pub delivery_share: f64,
    pub categories: BTreeMap<String, f64>,
    pub topics: [i16; TOPIC_COUNT],
    #[serde(default)]
    pub words: Vec<String>,
    // The history store keeps these two under keys of their own.
    #[serde(default)]
    pub sellers: Vec<u32>,
    #[serde(default)]
    pub seen: Vec<u32>,
    #[serde(default)]
    pub active: bool,
}

impl User {
    /// Somebody without a history; the twin of `unknown` in user.py.
    pub fn unknown(user_id: u64) -> Self {
        Self {
            user_id,
            city: "city_000".to_owned(),
            latitude: 55.75,
            longitude: 37.62,
            mean_price: 1000.0,
            delivery_share: 0.5,
            categories: BTreeMap::new(),
            topics: [0; TOPIC_COUNT],
            words: Vec::new(),
            sellers: Vec::new(),
            seen: Vec::new(),
            active: false,
        }
    }

    /// As features see the user; through the packed form, so that there is one way to read it.
    pub fn viewer(&self, now_s: i64) -> Viewer {
        Viewer::new(&self.packed(), now_s).expect("its own form")
    }

    /// The twin of `User.packed` in user.py.
    fn packed(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(USER_BYTES);
        let mut put = |value: f64| bytes.extend_from_slice(&value.to_le_bytes());
        [
            self.latitude,
            self.longitude,
            self.mean_price,
            self.delivery_share,
        ]
        .into_iter()
        .for_each(&mut put);
        CATEGORIES
            .iter()
            .for_each(|name| put(self.categories.get(*name).copied().unwrap_or(0.0)));
        self.topics.iter().for_each(|topic| put(f64::from(*topic)));
        let words = self.words.len().min(MOST_WORDS);
        let sellers = self.sellers.len().min(MOST_SELLERS);
        let mut put = |value: u32| bytes.extend_from_slice(&value.to_le_bytes());
        (0..MOST_WORDS)
            .for_each(|place| put(self.words.get(place).map_or(0, |word| word_code(word))));
        (0..MOST_SELLERS).for_each(|place| put(self.sellers.get(place).copied().unwrap_or(0)));
        put(self.city_number());
        put(words as u32);
        put(sellers as u32);
        bytes
    }

    fn city_number(&self) -> u32 {
        let number = self
            .city
            .strip_prefix("city_")
            .and_then(|text| text.parse().ok());
        number.unwrap_or(0).min(CITY_COUNT as u32 - 1)
    }
}
