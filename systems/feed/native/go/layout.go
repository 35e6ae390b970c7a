// Code generated: Written by `python -m feed.layout` from record.py, user.py, features.py and service/rules.py; do not edit. DO NOT EDIT.

package main

const (
	version           = 2
	headerBytes       = 2
	recordBytes       = 182
	firstBytes        = 166
	titleWords        = 8
	topicCount        = 8
	cityCount         = 200
	categoryCount     = 24
	userBytes         = 428
	mostWords         = 16
	mostSellers       = 16
	featureCount      = 60
	most              = 3000
	mostActive        = 11000
	slots             = 16384
	shards            = 3
	buckets           = 48
	keptS             = 900
	nowS              = 1763700000
	boostFactor       = 2
	varied            = 300
	window            = 10
	mostOfSeller      = 2
	mostOfCategory    = 5
	aside             = 100
	latitudeScale     = 1000000
	longitudeScale    = 1000000
	sellerRatingScale = 100
	qualityScale      = 10000
	photoQualityScale = 10000
	textQualityScale  = 10000
	dwellSScale       = 10
	meanPositionScale = 10
	fraudRiskScale    = 10000
	demandScale       = 10000
)

// Bytes from a record's first to each field's.
const (
	atItemId             = 2
	atSellerId           = 6
	atPrice              = 10
	atOldPrice           = 14
	atMarketPrice        = 18
	atLatitude           = 22
	atLongitude          = 26
	atCreatedS           = 30
	atUpdatedS           = 34
	atBoostUntilS        = 38
	atTitle              = 42
	atImpressions1h      = 74
	atImpressions1d      = 78
	atImpressions7d      = 82
	atImpressions30d     = 86
	atClicks1h           = 90
	atClicks1d           = 94
	atClicks7d           = 98
	atClicks30d          = 102
	atContacts1h         = 106
	atContacts1d         = 110
	atContacts7d         = 114
	atContacts30d        = 118
	atFavourites1h       = 122
	atFavourites1d       = 126
	atFavourites7d       = 130
	atFavourites30d      = 134
	atSellerReviews      = 138
	atSellerItems        = 140
	atSellerReplyMinutes = 142
	atSellerRating       = 144
	atSubcategory        = 146
	atCity               = 148
	atDescriptionChars   = 150
	atQuality            = 152
	atPhotoQuality       = 154
	atTextQuality        = 156
	atCategory           = 158
	atRegion             = 159
	atImages             = 160
	atAttributes         = 161
	atAttributesAsked    = 162
	atBoost              = 163
	atIsCompany          = 164
	atHasDelivery        = 165
	atTopics             = 166
	atDwellS             = 174
	atMeanPosition       = 176
	atFraudRisk          = 178
	atDemand             = 180
)

// What follows a record of version 1 to make it one of this version: nulls.
var lacking = [recordBytes - firstBytes]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

var categories = [categoryCount]string{
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
}
