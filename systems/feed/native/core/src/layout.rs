//! Written by `python -m feed.layout` from record.py, user.py, features.py and service/rules.py; do not edit.

pub const VERSION: usize = 2;
pub const HEADER_BYTES: usize = 2;
pub const RECORD_BYTES: usize = 182;
pub const FIRST_BYTES: usize = 166;
pub const TITLE_WORDS: usize = 8;
pub const TOPIC_COUNT: usize = 8;
pub const CITY_COUNT: usize = 200;
pub const CATEGORY_COUNT: usize = 24;
pub const USER_BYTES: usize = 428;
pub const MOST_WORDS: usize = 16;
pub const MOST_SELLERS: usize = 16;
pub const FEATURE_COUNT: usize = 60;
pub const MOST: usize = 3000;
pub const MOST_ACTIVE: usize = 11000;
pub const SLOTS: usize = 16384;
pub const SHARDS: usize = 3;
pub const BUCKETS: usize = 48;
pub const KEPT_S: usize = 900;
pub const NOW_S: usize = 1763700000;
pub const BOOST_FACTOR: usize = 2;
pub const VARIED: usize = 300;
pub const WINDOW: usize = 10;
pub const MOST_OF_SELLER: usize = 2;
pub const MOST_OF_CATEGORY: usize = 5;
pub const ASIDE: usize = 100;
pub const LATITUDE_SCALE: usize = 1000000;
pub const LONGITUDE_SCALE: usize = 1000000;
pub const SELLER_RATING_SCALE: usize = 100;
pub const QUALITY_SCALE: usize = 10000;
pub const PHOTO_QUALITY_SCALE: usize = 10000;
pub const TEXT_QUALITY_SCALE: usize = 10000;
pub const DWELL_S_SCALE: usize = 10;
pub const MEAN_POSITION_SCALE: usize = 10;
pub const FRAUD_RISK_SCALE: usize = 10000;
pub const DEMAND_SCALE: usize = 10000;

/// Bytes from a record's first to each field's.
pub const ITEM_ID: usize = 2;
pub const SELLER_ID: usize = 6;
pub const PRICE: usize = 10;
pub const OLD_PRICE: usize = 14;
pub const MARKET_PRICE: usize = 18;
pub const LATITUDE: usize = 22;
pub const LONGITUDE: usize = 26;
pub const CREATED_S: usize = 30;
pub const UPDATED_S: usize = 34;
pub const BOOST_UNTIL_S: usize = 38;
pub const TITLE: usize = 42;
pub const IMPRESSIONS_1H: usize = 74;
pub const IMPRESSIONS_1D: usize = 78;
pub const IMPRESSIONS_7D: usize = 82;
pub const IMPRESSIONS_30D: usize = 86;
pub const CLICKS_1H: usize = 90;
pub const CLICKS_1D: usize = 94;
pub const CLICKS_7D: usize = 98;
pub const CLICKS_30D: usize = 102;
pub const CONTACTS_1H: usize = 106;
pub const CONTACTS_1D: usize = 110;
pub const CONTACTS_7D: usize = 114;
pub const CONTACTS_30D: usize = 118;
pub const FAVOURITES_1H: usize = 122;
pub const FAVOURITES_1D: usize = 126;
pub const FAVOURITES_7D: usize = 130;
pub const FAVOURITES_30D: usize = 134;
pub const SELLER_REVIEWS: usize = 138;
pub const SELLER_ITEMS: usize = 140;
pub const SELLER_REPLY_MINUTES: usize = 142;
pub const SELLER_RATING: usize = 144;
pub const SUBCATEGORY: usize = 146;
pub const CITY: usize = 148;
pub const DESCRIPTION_CHARS: usize = 150;
pub const QUALITY: usize = 152;
pub const PHOTO_QUALITY: usize = 154;
pub const TEXT_QUALITY: usize = 156;
pub const CATEGORY: usize = 158;
pub const REGION: usize = 159;
pub const IMAGES: usize = 160;
pub const ATTRIBUTES: usize = 161;
pub const ATTRIBUTES_ASKED: usize = 162;
pub const BOOST: usize = 163;
pub const IS_COMPANY: usize = 164;
pub const HAS_DELIVERY: usize = 165;
pub const TOPICS: usize = 166;
pub const DWELL_S: usize = 174;
pub const MEAN_POSITION: usize = 176;
pub const FRAUD_RISK: usize = 178;
pub const DEMAND: usize = 180;

/// What follows a record of version 1 to make it one of this version: nulls.
#[rustfmt::skip]
pub const LACKING: [u8; RECORD_BYTES - FIRST_BYTES] = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];

pub const CATEGORIES: [&str; 24] = [
    "cars",
    "car_parts",
    "motorcycles",
    "flats",
    "houses",
    "garages",
    "jobs",
    "services",
    "phones",
    "laptops",
    "consoles",
    "audio",
    "cameras",
    "furniture",
    "kitchen",
    "garden",
    "clothes",
    "shoes",
    "children",
    "bicycles",
    "sport",
    "books",
    "music",
    "pets",
];

pub const FEATURES: [&str; 60] = [
    "log_impressions_1h",
    "log_impressions_1d",
    "log_impressions_7d",
    "log_impressions_30d",
    "log_clicks_1h",
    "log_clicks_1d",
    "log_clicks_7d",
    "log_clicks_30d",
    "log_contacts_1h",
    "log_contacts_1d",
    "log_contacts_7d",
    "log_contacts_30d",
    "log_favourites_1h",
    "log_favourites_1d",
    "log_favourites_7d",
    "log_favourites_30d",
    "click_rate_1h",
    "click_rate_1d",
    "click_rate_7d",
    "click_rate_30d",
    "contact_rate_1h",
    "contact_rate_1d",
    "contact_rate_7d",
    "contact_rate_30d",
    "favourite_rate_1h",
    "favourite_rate_1d",
    "favourite_rate_7d",
    "favourite_rate_30d",
    "trend_impressions",
    "trend_clicks",
    "trend_contacts",
    "trend_favourites",
    "log_price",
    "log_market_price",
    "price_to_market",
    "price_to_usual",
    "discount_frac",
    "age_h",
    "updated_h",
    "images",
    "log_description_chars",
    "attributes_frac",
    "log_seller_reviews",
    "log_seller_items",
    "log_seller_reply_minutes",
    "seller_rating",
    "seller_is_known",
    "seller_is_company",
    "quality",
    "photo_quality",
    "text_quality",
    "distance_km",
    "category_interest",
    "topic_similarity",
    "words_in_common",
    "delivery_match",
    "log_dwell_s",
    "mean_position",
    "fraud_risk",
    "demand",
];
