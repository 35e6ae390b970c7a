package main

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"strings"
	"unicode/utf8"
)

const windows = 4

// item is what features look at. A number that may be null is NaN then.
type item struct {
	itemID             uint32
	sellerID           uint32
	price              float64
	oldPrice           float64 // 0 = none
	marketPrice        float64
	latitude           float64
	longitude          float64
	createdS           int64
	updatedS           int64
	title              [titleWords]uint32 // codes; 0 = no word
	counters           [4][windows]uint32 // impressions, clicks, contacts, favourites
	sellerReviews      uint32
	sellerItems        uint32
	sellerReplyMinutes float64
	sellerRating       float64
	descriptionChars   uint32
	quality            float64
	photoQuality       float64
	textQuality        float64
	category           int // categoryCount = none of them
	images             uint8
	attributes         uint8
	attributesAsked    uint8
	isCompany          bool
	hasDelivery        bool
	topics             [topicCount]int8 // zeros when null
	dwellS             float64
	meanPosition       float64
	fraudRisk          float64
	demand             float64
}

// readRecord reads a packed record of any version; false when it is none. The twin of `fitted` in record.py.
func readRecord(record []byte, into *item) bool {
	if len(record) < firstBytes || record[0] == 0 {
		return false
	}
	if record[0] == 1 && len(record) != firstBytes || record[0] == version && len(record) != recordBytes {
		return false
	}
	var whole [recordBytes]byte
	if len(record) < recordBytes {
		copy(whole[firstBytes:], lacking[:])
		copy(whole[:], record)
		record = whole[:]
	}
	readFields((*[recordBytes]byte)(record), into)
	return true
}

func readFields(r *[recordBytes]byte, into *item) {
	into.itemID = u32(r, atItemId)
	into.sellerID = u32(r, atSellerId)
	into.price = known32(r, atPrice)
	into.oldPrice = 0
	if old := u32(r, atOldPrice); old != math.MaxUint32 {
		into.oldPrice = float64(old)
	}
	into.marketPrice = float64(u32(r, atMarketPrice))
	into.latitude = float64(int32(u32(r, atLatitude))) / latitudeScale
	into.longitude = float64(int32(u32(r, atLongitude))) / longitudeScale
	into.createdS = int64(u32(r, atCreatedS))
	into.updatedS = int64(u32(r, atUpdatedS))
	for place := range into.title {
		into.title[place] = u32(r, atTitle+4*place)
	}
	for counter, at := range [4]int{atImpressions1h, atClicks1h, atContacts1h, atFavourites1h} {
		for window := range into.counters[counter] {
			into.counters[counter][window] = u32(r, at+4*window)
		}
	}
	into.sellerReviews = uint32(u16(r, atSellerReviews))
	into.sellerItems = uint32(u16(r, atSellerItems))
	into.sellerReplyMinutes = known16(r, atSellerReplyMinutes, 1)
	into.sellerRating = known16(r, atSellerRating, sellerRatingScale)
	into.descriptionChars = uint32(u16(r, atDescriptionChars))
	into.quality = float64(u16(r, atQuality)) / qualityScale
	into.photoQuality = known16(r, atPhotoQuality, photoQualityScale)
	into.textQuality = float64(u16(r, atTextQuality)) / textQualityScale
	into.category = min(int(r[atCategory]), categoryCount)
	into.images = r[atImages]
	into.attributes = r[atAttributes]
	into.attributesAsked = r[atAttributesAsked]
	into.isCompany = r[atIsCompany] != 0
	into.hasDelivery = r[atHasDelivery] != 0
	isNull := true
	for place := range into.topics {
		into.topics[place] = int8(r[atTopics+place])
		isNull = isNull && into.topics[place] == math.MinInt8
	}
	if isNull {
		into.topics = [topicCount]int8{}
	}
	into.dwellS = known16(r, atDwellS, dwellSScale)
	into.meanPosition = known16(r, atMeanPosition, meanPositionScale)
	into.fraudRisk = known16(r, atFraudRisk, fraudRiskScale)
	into.demand = known16(r, atDemand, demandScale)
}

func u16(r *[recordBytes]byte, at int) uint16 { return binary.LittleEndian.Uint16(r[at:]) }
func u32(r *[recordBytes]byte, at int) uint32 { return binary.LittleEndian.Uint32(r[at:]) }

func known16(r *[recordBytes]byte, at int, scale float64) float64 {
	if value := u16(r, at); value != math.MaxUint16 {
		return float64(value) / scale
	}
	return math.NaN()
}

func known32(r *[recordBytes]byte, at int) float64 {
	if value := u32(r, at); value != math.MaxUint32 {
		return float64(value)
	}
	return math.NaN()
}

// jsonItem has pointers where a field must be told from its absence.
type jsonItem struct {
	ItemID             *uint32   `json:"item_id"`
	SellerID           *uint32   `json:"seller_id"`
	Price              *uint32   `json:"price"`
	OldPrice           uint32    `json:"old_price"`
	MarketPrice        *uint32   `json:"market_price"`
	Latitude           *float64  `json:"latitude"`
	Longitude          *float64  `json:"longitude"`
	CreatedS           *uint32   `json:"created_s"`
	UpdatedS           *uint32   `json:"updated_s"`
	Title              *string   `json:"title"`
	Impressions1h      uint32    `json:"impressions_1h"`
	Impressions1d      uint32    `json:"impressions_1d"`
	Impressions7d      uint32    `json:"impressions_7d"`
	Impressions30d     uint32    `json:"impressions_30d"`
	Clicks1h           uint32    `json:"clicks_1h"`
	Clicks1d           uint32    `json:"clicks_1d"`
	Clicks7d           uint32    `json:"clicks_7d"`
	Clicks30d          uint32    `json:"clicks_30d"`
	Contacts1h         uint32    `json:"contacts_1h"`
	Contacts1d         uint32    `json:"contacts_1d"`
	Contacts7d         uint32    `json:"contacts_7d"`
	Contacts30d        uint32    `json:"contacts_30d"`
	Favourites1h       uint32    `json:"favourites_1h"`
	Favourites1d       uint32    `json:"favourites_1d"`
	Favourites7d       uint32    `json:"favourites_7d"`
	Favourites30d      uint32    `json:"favourites_30d"`
	SellerReviews      uint16    `json:"seller_reviews"`
	SellerItems        uint16    `json:"seller_items"`
	SellerReplyMinutes *uint16   `json:"seller_reply_minutes"`
	SellerRating       *float64  `json:"seller_rating"`
	DescriptionChars   uint16    `json:"description_chars"`
	Quality            *float64  `json:"quality"`
	PhotoQuality       *float64  `json:"photo_quality"`
	TextQuality        *float64  `json:"text_quality"`
	Category           *string   `json:"category"`
	Images             uint8     `json:"images"`
	Attributes         uint8     `json:"attributes"`
	AttributesAsked    uint8     `json:"attributes_asked"`
	IsCompany          *bool     `json:"is_company"`
	HasDelivery        *bool     `json:"has_delivery"`
	Topics             []float64 `json:"topics"`
	DwellS             *float64  `json:"dwell_s"`
	MeanPosition       *float64  `json:"mean_position"`
	FraudRisk          *float64  `json:"fraud_risk"`
	Demand             *float64  `json:"demand"`
}

// readJSON reads an item's JSON of any version; false when it is none.
func readJSON(text []byte, into *item) bool {
	var j jsonItem
	if json.Unmarshal(text, &j) != nil || !j.isWhole() {
		return false
	}
	*into = item{
		itemID: *j.ItemID, sellerID: *j.SellerID, price: math.NaN(), oldPrice: float64(j.OldPrice),
		marketPrice: float64(*j.MarketPrice), latitude: *j.Latitude, longitude: *j.Longitude,
		createdS: int64(*j.CreatedS), updatedS: int64(*j.UpdatedS), title: titleCodes(*j.Title),
		counters: [4][windows]uint32{
			{j.Impressions1h, j.Impressions1d, j.Impressions7d, j.Impressions30d},
			{j.Clicks1h, j.Clicks1d, j.Clicks7d, j.Clicks30d},
			{j.Contacts1h, j.Contacts1d, j.Contacts7d, j.Contacts30d},
			{j.Favourites1h, j.Favourites1d, j.Favourites7d, j.Favourites30d},
		},
		sellerReviews: uint32(j.SellerReviews), sellerItems: uint32(j.SellerItems), sellerReplyMinutes: math.NaN(),
		sellerRating: known(j.SellerRating), descriptionChars: uint32(j.DescriptionChars), quality: *j.Quality,
		photoQuality: known(j.PhotoQuality), textQuality: *j.TextQuality, category: categoryCount, images: j.Images,
		attributes: j.Attributes, attributesAsked: j.AttributesAsked, isCompany: *j.IsCompany, hasDelivery: *j.HasDelivery,
		dwellS: known(j.DwellS), meanPosition: known(j.MeanPosition), fraudRisk: known(j.FraudRisk), demand: known(j.Demand),
	}
	if j.Price != nil {
		into.price = float64(*j.Price)
	}
	if j.SellerReplyMinutes != nil {
		into.sellerReplyMinutes = float64(*j.SellerReplyMinutes)
	}
	for number, name := range categories {
		if name == *j.Category {
			into.category = number
		}
	}
	for place := range j.Topics {
		into.topics[place] = int8(j.Topics[place])
	}
	return true
}

func (j *jsonItem) isWhole() bool {
	return j.ItemID != nil && j.SellerID != nil && j.MarketPrice != nil && j.Latitude != nil && j.Longitude != nil &&
		j.CreatedS != nil && j.UpdatedS != nil && j.Title != nil && utf8.ValidString(*j.Title) && j.Quality != nil &&
		j.TextQuality != nil && j.Category != nil && j.IsCompany != nil && j.HasDelivery != nil &&
		(j.Topics == nil || len(j.Topics) == topicCount)
}

func known(value *float64) float64 {
	if value == nil {
		return math.NaN()
	}
	return *value
}

func titleCodes(title string) (codes [titleWords]uint32) {
	for place := range codes {
		word, rest, more := strings.Cut(title, " ")
		codes[place] = max(crc32.ChecksumIEEE([]byte(word)), 1)
		if !more {
			break
		}
		title = rest
	}
	return codes
}
