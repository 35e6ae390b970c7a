//! One item as features see it, read from a packed record.

use crate::layout::{self, *};

/// Windows of each counter: 1h, 1d, 7d, 30d.
pub const WINDOWS: usize = 4;

/// What features look at. A number that may be null is NaN then.
pub struct Item {
    pub item_id: u32,
    pub seller_id: u32,
    pub price: f64,
    /// 0 = none: no discount either way.
    pub old_price: f64,
    pub market_price: f64,
    pub latitude: f64,
    pub longitude: f64,
    pub created_s: i64,
    pub updated_s: i64,
    /// Codes of the first words of the title; 0 = no word.
    pub title: [u32; TITLE_WORDS],
    pub impressions: [u32; WINDOWS],
    pub clicks: [u32; WINDOWS],
    pub contacts: [u32; WINDOWS],
    pub favourites: [u32; WINDOWS],
    pub seller_reviews: u32,
    pub seller_items: u32,
    pub seller_reply_minutes: f64,
    pub seller_rating: f64,
    pub description_chars: u32,
    pub quality: f64,
    pub photo_quality: f64,
    pub text_quality: f64,
    /// Index into CATEGORIES; CATEGORY_COUNT = none of them.
    pub category: usize,
    pub images: u8,
    pub attributes: u8,
    pub attributes_asked: u8,
    pub is_company: bool,
    pub has_delivery: bool,
    /// Zeros when null: no direction either way.
    pub topics: [i8; TOPIC_COUNT],
    pub dwell_s: f64,
    pub mean_position: f64,
    pub fraud_risk: f64,
    pub demand: f64,
    /// Paid boost, 0 to 3, in force until `boost_until_s` (0 = none).
    pub boost: u8,
    pub boost_until_s: u32,
    /// It was stored by an older version: it lacks fields.
    pub is_older: bool,
}

impl Item {
    /// Of a packed record of any version: an older one lacks fields (null), a newer one has more (not looked at).
    #[inline]
    pub fn from_record(record: &[u8]) -> Option<Self> {
        if let Ok(record) = <&[u8; RECORD_BYTES]>::try_from(record) {
            if usize::from(record[0]) >= VERSION {
                return Some(Self::from_fields(record));
            }
        }
        fitted(record).map(|record| Self::from_fields(&record))
    }

    #[inline]
    fn from_fields(record: &[u8; RECORD_BYTES]) -> Self {
        Self {
            item_id: u32_at(record, ITEM_ID),
            seller_id: u32_at(record, SELLER_ID),
            price: known_u32(record, PRICE),
            old_price: f64::from(or_zero(u32_at(record, OLD_PRICE))),
            market_price: f64::from(u32_at(record, MARKET_PRICE)),
            latitude: f64::from(u32_at(record, LATITUDE) as i32) / LATITUDE_SCALE as f64,
            longitude: f64::from(u32_at(record, LONGITUDE) as i32) / LONGITUDE_SCALE as f64,
            created_s: i64::from(u32_at(record, CREATED_S)),
            updated_s: i64::from(u32_at(record, UPDATED_S)),
            title: u32s_at(record, TITLE),
            impressions: u32s_at(record, IMPRESSIONS_1H),
            clicks: u32s_at(record, CLICKS_1H),
            contacts: u32s_at(record, CONTACTS_1H),
            favourites: u32s_at(record, FAVOURITES_1H),
            seller_reviews: u32::from(u16_at(record, SELLER_REVIEWS)),
            seller_items: u32::from(u16_at(record, SELLER_ITEMS)),
            seller_reply_minutes: known_u16(record, SELLER_REPLY_MINUTES, 1),
            seller_rating: known_u16(record, SELLER_RATING, SELLER_RATING_SCALE),
            description_chars: u32::from(u16_at(record, DESCRIPTION_CHARS)),
            quality: scaled(u16_at(record, QUALITY), QUALITY_SCALE),
            photo_quality: known_u16(record, PHOTO_QUALITY, PHOTO_QUALITY_SCALE),
            text_quality: scaled(u16_at(record, TEXT_QUALITY), TEXT_QUALITY_SCALE),
            category: usize::from(record[CATEGORY]).min(CATEGORY_COUNT),
            images: record[IMAGES],
            attributes: record[ATTRIBUTES],
            attributes_asked: record[ATTRIBUTES_ASKED],
            is_company: record[IS_COMPANY] != 0,
            has_delivery: record[HAS_DELIVERY] != 0,
            topics: topics_at(record),
            dwell_s: known_u16(record, DWELL_S, DWELL_S_SCALE),
            mean_position: known_u16(record, MEAN_POSITION, MEAN_POSITION_SCALE),
            fraud_risk: known_u16(record, FRAUD_RISK, FRAUD_RISK_SCALE),
            demand: known_u16(record, DEMAND, DEMAND_SCALE),
            boost: record[BOOST],
            boost_until_s: or_zero(u32_at(record, BOOST_UNTIL_S)),
            is_older: usize::from(record[0]) < VERSION,
        }
    }
}

/// The record in RECORD_BYTES bytes, whichever version it has; the twin of `fitted` in record.py.
fn fitted(record: &[u8]) -> Option<[u8; RECORD_BYTES]> {
    let bytes = record.len().min(RECORD_BYTES);
    let expected = match usize::from(*record.first()?) {
        0 => return None,
        1 => FIRST_BYTES,
        VERSION => RECORD_BYTES,
        _ => record.len(),
    };
    if record.len() != expected || bytes < FIRST_BYTES {
        return None;
    }
    let mut whole = [0; RECORD_BYTES];
    whole[FIRST_BYTES..].copy_from_slice(&LACKING);
    whole[..bytes].copy_from_slice(&record[..bytes]);
    Some(whole)
}

fn u16_at(record: &[u8; RECORD_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

fn u32_at(record: &[u8; RECORD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
}

fn u32s_at<const N: usize>(record: &[u8; RECORD_BYTES], at: usize) -> [u32; N] {
    std::array::from_fn(|index| u32_at(record, at + 4 * index))
}

fn known_u32(record: &[u8; RECORD_BYTES], at: usize) -> f64 {
    match u32_at(record, at) {
        u32::MAX => f64::NAN,
        value => f64::from(value),
    }
}

fn known_u16(record: &[u8; RECORD_BYTES], at: usize, scale: usize) -> f64 {
    match u16_at(record, at) {
        u16::MAX => f64::NAN,
        value => scaled(value, scale),
    }
}

/// The double nearest to the decimal: a division, since a product with 1/scale would round twice.
fn scaled(value: u16, scale: usize) -> f64 {
    f64::from(value) / scale as f64
}

fn or_zero(value: u32) -> u32 {
    if value == u32::MAX {
        0
    } else {
        value
    }
}

fn topics_at(record: &[u8; RECORD_BYTES]) -> [i8; TOPIC_COUNT] {
    let topics: [i8; TOPIC_COUNT] =
        std::array::from_fn(|index| record[layout::TOPICS + index] as i8);
    if topics == [i8::MIN; TOPIC_COUNT] {
        return [0; TOPIC_COUNT];
    }
    topics
}

/// The number that stands for a word: CRC-32 of its UTF-8, never 0; the twin of `word_code` in record.py.
pub fn word_code(word: &str) -> u32 {
    crc32fast::hash(word.as_bytes()).max(1)
}
