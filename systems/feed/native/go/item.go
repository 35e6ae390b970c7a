package main

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
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
	boost              uint8 // in force until boostUntilS; 0 = none
	boostUntilS        uint32
	isOlder            bool // stored by an older version
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
	into.isOlder = record[0] < version
	return true
}

func readFields(r *[recordBytes]byte, into *item) {
	into.itemID = u32(r, atItemId)
	into.sellerID = u32(r, atSellerId)
	into.price = known32(r, atPrice)
	into.oldPrice = float64(orZero(u32(r, atOldPrice)))
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
	into.boost = r[atBoost]
	into.boostUntilS = orZero(u32(r, atBoostUntilS))
}

func orZero(value uint32) uint32 {
	if value == math.MaxUint32 {
		return 0
	}
	return value
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
