package main

import (
	"hash/crc32"
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
