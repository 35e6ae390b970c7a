//! The 60 numbers of an item as one viewer sees it: the only code that training and serving run.
//!
//! Its twin is `features.py`: same order of operations in f64, one rounding to f32 at the end, so both give the same bits.

use crate::item::{Item, WINDOWS};
use crate::layout::FEATURE_COUNT;
use crate::logs::Logs;
use crate::viewer::Viewer;

const KM_PER_DEGREE: f64 = 111.195;

/// Where a row's numbers go: one call a feature, in order.
pub trait Row {
    fn put(&mut self, feature: usize, value: f32);
}

/// Writes the item's features.
#[inline]
pub fn write(item: &Item, viewer: &Viewer, logs: &Logs, row: &mut impl Row) {
    let mut at = 0;
    let mut put = |value: f32| {
        row.put(at, value);
        at += 1;
    };
    let counters = [
        &item.impressions,
        &item.clicks,
        &item.contacts,
        &item.favourites,
    ];
    counters
        .into_iter()
        .flatten()
        .for_each(|&count| put(logs.log1p(count)));
    for window in 0..WINDOWS {
        put(rate(
            item.clicks[window],
            1.0,
            item.impressions[window],
            20.0,
        ));
    }
    for window in 0..WINDOWS {
        put(rate(item.contacts[window], 0.5, item.clicks[window], 10.0));
    }
    for window in 0..WINDOWS {
        put(rate(
            item.favourites[window],
            0.5,
            item.clicks[window],
            10.0,
        ));
    }
    for [_, day, week, _] in counters {
        put(((f64::from(*day) * 7.0) / (f64::from(*week) + 7.0)) as f32);
    }
    put(logs.log1p_of(item.price));
    put(logs.log1p_of(item.market_price));
    put((item.price
        / if item.market_price == 0.0 {
            1.0
        } else {
            item.market_price
        }) as f32);
    put((item.price / viewer.mean_price) as f32);
    put(discount(item) as f32);
    put(((viewer.now_s - item.created_s) as f64 / 3600.0) as f32);
    put(((viewer.now_s - item.updated_s) as f64 / 3600.0) as f32);
    put(f32::from(item.images));
    put(logs.log1p(item.description_chars));
    put(share(item.attributes, item.attributes_asked) as f32);
    put(logs.log1p(item.seller_reviews));
    put(logs.log1p(item.seller_items));
    put(logs.log1p_of(item.seller_reply_minutes));
    put(item.seller_rating as f32);
    put(flag(viewer.knows_seller(item.seller_id)));
    put(flag(item.is_company));
    put(item.quality as f32);
    put(item.photo_quality as f32);
    put(item.text_quality as f32);
    put(distance_km(item, viewer) as f32);
    put(viewer.categories[item.category] as f32);
    put(topic_similarity(item, viewer) as f32);
    put(words_in_common(item, viewer));
    put(if item.has_delivery {
        viewer.delivery_share
    } else {
        1.0 - viewer.delivery_share
    } as f32);
    put(logs.log1p_of(item.dwell_s));
    put(item.mean_position as f32);
    put(item.fraud_risk as f32);
    put(item.demand as f32);
    debug_assert_eq!(at, FEATURE_COUNT);
}

fn rate(part: u32, more: f64, whole: u32, larger: f64) -> f32 {
    ((f64::from(part) + more) / (f64::from(whole) + larger)) as f32
}

fn discount(item: &Item) -> f64 {
    if item.price.is_nan() || item.old_price == 0.0 {
        return 0.0;
    }
    (item.old_price - item.price) / item.old_price
}

fn share(part: u8, whole: u8) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    f64::from(part) / f64::from(whole)
}

fn flag(yes: bool) -> f32 {
    f32::from(u8::from(yes))
}

/// On a map that is true to scale at the viewer's latitude.
fn distance_km(item: &Item, viewer: &Viewer) -> f64 {
    let north = item.latitude - viewer.latitude;
    let mut east = (item.longitude - viewer.longitude).abs();
    if east > 180.0 {
        east = 360.0 - east;
    }
    east *= viewer.longitude_share;
    KM_PER_DEGREE * (north * north + east * east).sqrt()
}

/// Cosine of both embeddings; 0 when one is not known. The sums are of whole numbers: exact in any order.
fn topic_similarity(item: &Item, viewer: &Viewer) -> f64 {
    let mut product = 0.0;
    let mut square = 0.0;
    for (mine, &other) in viewer.topics.iter().zip(&item.topics) {
        let other = f64::from(other);
        product += mine * other;
        square += other * other;
    }
    let squares = viewer.topics_square * square;
    if squares == 0.0 {
        return 0.0;
    }
    product / squares.sqrt()
}

fn words_in_common(item: &Item, viewer: &Viewer) -> f32 {
    let mut common = 0;
    for code in item.title {
        let mut is_known = false;
        for &word in &viewer.words {
            is_known |= word == code;
        }
        common += u8::from(is_known & (code != 0));
    }
    f32::from(common)
}
