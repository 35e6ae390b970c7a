package main

// The same functions of the C library as Rust's and Python's: Go's own differ from them in the last bit.

/*
#cgo LDFLAGS: -lm
#include <math.h>

static void feed_make_logs(float *table, int count) {
	for (int n = 0; n < count; n++) table[n] = (float)log1p((double)n);
}
*/
import "C"

import (
	"encoding/binary"
	"math"
	"unsafe"
)

const kmPerDegree = 111.195

var logs = make([]float32, 1<<15)

func init() {
	C.feed_make_logs((*C.float)(unsafe.Pointer(&logs[0])), C.int(len(logs)))
}

// log1p of a whole number: most are small and come from the table.
func log1p(n uint32) float32 {
	if n < uint32(len(logs)) {
		return logs[n]
	}
	return float32(C.log1p(C.double(n)))
}

func log1pOf(value float64) float32 {
	if value >= 0 && value < math.MaxUint32 && value == math.Trunc(value) {
		return log1p(uint32(value))
	}
	if math.IsNaN(value) {
		return float32(value)
	}
	return float32(C.log1p(C.double(value)))
}

// viewer is the user for whom items are ranked, at one time; made of User.packed() of user.py.
type viewer struct {
	nowS           int64
	latitude       float64
	longitude      float64
	longitudeShare float64
	meanPrice      float64
	deliveryShare  float64
	categories     [categoryCount + 1]float64
	topics         [topicCount]float64
	topicsSquare   float64
	words          [mostWords]uint32
	sellers        []uint32
}

func newViewer(packed []byte, nowS int64) *viewer {
	v := &viewer{nowS: nowS}
	f64 := func() float64 {
		value := math.Float64frombits(binary.LittleEndian.Uint64(packed))
		packed = packed[8:]
		return value
	}
	u32 := func() uint32 {
		value := binary.LittleEndian.Uint32(packed)
		packed = packed[4:]
		return value
	}
	v.latitude, v.longitude, v.meanPrice, v.deliveryShare = f64(), f64(), f64(), f64()
	for number := range categoryCount {
		v.categories[number] = f64()
	}
	for place := range v.topics {
		v.topics[place] = f64()
		v.topicsSquare += float64(v.topics[place] * v.topics[place])
	}
	for place := range v.words {
		v.words[place] = u32()
	}
	sellers := make([]uint32, mostSellers)
	for place := range sellers {
		sellers[place] = u32()
	}
	_, _, count := u32(), u32(), u32()
	v.sellers = sellers[:min(count, mostSellers)]
	v.longitudeShare = float64(C.cos(C.double(v.latitude * (math.Pi / 180.0))))
	return v
}

func (v *viewer) knowsSeller(seller uint32) bool {
	for _, one := range v.sellers {
		if one == seller {
			return true
		}
	}
	return false
}

// write puts the item's features into row: the twin of features.rs and features.py, same operations in the same order.
func (v *viewer) write(it *item, row *[featureCount]float32) {
	at := 0
	put := func(value float32) {
		row[at] = value
		at++
	}
	for counter := range it.counters {
		for _, count := range it.counters[counter] {
			put(log1p(count))
		}
	}
	impressions, clicks, contacts, favourites := &it.counters[0], &it.counters[1], &it.counters[2], &it.counters[3]
	for window := range windows {
		put(rate(clicks[window], 1.0, impressions[window], 20.0))
	}
	for window := range windows {
		put(rate(contacts[window], 0.5, clicks[window], 10.0))
	}
	for window := range windows {
		put(rate(favourites[window], 0.5, clicks[window], 10.0))
	}
	for counter := range it.counters {
		day, week := float64(it.counters[counter][1]), float64(it.counters[counter][2])
		put(float32(float64(day*7.0) / (week + 7.0)))
	}
	put(log1pOf(it.price))
	put(log1pOf(it.marketPrice))
	market := it.marketPrice
	if market == 0 {
		market = 1
	}
	put(float32(it.price / market))
	put(float32(it.price / v.meanPrice))
	put(float32(discount(it)))
	put(float32(float64(v.nowS-it.createdS) / 3600.0))
	put(float32(float64(v.nowS-it.updatedS) / 3600.0))
	put(float32(it.images))
	put(log1p(it.descriptionChars))
	put(share(it.attributes, it.attributesAsked))
	put(log1p(it.sellerReviews))
	put(log1p(it.sellerItems))
	put(log1pOf(it.sellerReplyMinutes))
	put(float32(it.sellerRating))
	put(flag(v.knowsSeller(it.sellerID)))
	put(flag(it.isCompany))
	put(float32(it.quality))
	put(float32(it.photoQuality))
	put(float32(it.textQuality))
	put(float32(v.distanceKm(it)))
	put(float32(v.categories[it.category]))
	put(float32(v.topicSimilarity(it)))
	put(v.wordsInCommon(it))
	if it.hasDelivery {
		put(float32(v.deliveryShare))
	} else {
		put(float32(1.0 - v.deliveryShare))
	}
	put(log1pOf(it.dwellS))
	put(float32(it.meanPosition))
	put(float32(it.fraudRisk))
	put(float32(it.demand))
}

func rate(part uint32, more float64, whole uint32, larger float64) float32 {
	return float32((float64(part) + more) / (float64(whole) + larger))
}

func discount(it *item) float64 {
	if math.IsNaN(it.price) || it.oldPrice == 0 {
		return 0
	}
	return (it.oldPrice - it.price) / it.oldPrice
}

func share(part, whole uint8) float32 {
	if whole == 0 {
		return 0
	}
	return float32(float64(part) / float64(whole))
}

func flag(yes bool) float32 {
	if yes {
		return 1
	}
	return 0
}

// Conversions to float64 keep the compiler from fusing a product with a sum, which rounds once where others round twice.
func (v *viewer) distanceKm(it *item) float64 {
	north := it.latitude - v.latitude
	east := math.Abs(it.longitude - v.longitude)
	if east > 180.0 {
		east = 360.0 - east
	}
	east = float64(east * v.longitudeShare)
	return kmPerDegree * math.Sqrt(float64(north*north)+float64(east*east))
}

func (v *viewer) topicSimilarity(it *item) float64 {
	var product, square float64
	for place, mine := range v.topics {
		other := float64(it.topics[place])
		product += float64(mine * other)
		square += float64(other * other)
	}
	squares := v.topicsSquare * square
	if squares == 0 {
		return 0
	}
	return product / math.Sqrt(squares)
}

func (v *viewer) wordsInCommon(it *item) float32 {
	common := 0
	for _, code := range it.title {
		if code == 0 {
			continue
		}
		for _, word := range v.words {
			if word == code {
				common++
				break
			}
		}
	}
	return float32(common)
}
