package main

import (
	"encoding/json"
	"math"
	"strconv"
)

// Fields that every item has.
const (
	hasItemID = 1 << iota
	hasSellerID
	hasMarketPrice
	hasLatitude
	hasLongitude
	hasCreatedS
	hasUpdatedS
	hasTitle
	hasQuality
	hasTextQuality
	hasCategory
	hasIsCompany
	hasHasDelivery
	hasAll = 1<<iota - 1
)

// readJSON reads an item's JSON of any version; false when it is none. encoding/json would take five times as long.
func readJSON(text []byte, into *item) bool {
	nan := math.NaN()
	*into = item{
		price: nan, sellerReplyMinutes: nan, sellerRating: nan, photoQuality: nan, category: categoryCount,
		dwellS: nan, meanPosition: nan, fraudRisk: nan, demand: nan, isOlder: true,
	}
	s := scanner{text: text}
	has := 0
	if !s.next('{') || s.next('}') {
		return false
	}
	for s.ok() {
		name := s.string()
		if !s.next(':') {
			return false
		}
		has |= s.field(string(name), into)
		if s.next(',') {
			continue
		}
		return s.next('}') && s.ended() && !s.failed && has == hasAll
	}
	return false
}

func (s *scanner) field(name string, into *item) int {
	switch name {
	case "item_id":
		into.itemID = s.whole(math.MaxUint32)
		return hasItemID
	case "seller_id":
		into.sellerID = s.whole(math.MaxUint32)
		return hasSellerID
	case "price":
		if !s.null() {
			into.price = float64(s.whole(math.MaxUint32))
		}
	case "old_price":
		if !s.null() {
			into.oldPrice = float64(s.whole(math.MaxUint32))
		}
	case "market_price":
		into.marketPrice = float64(s.whole(math.MaxUint32))
		return hasMarketPrice
	case "latitude":
		into.latitude = s.number()
		return hasLatitude
	case "longitude":
		into.longitude = s.number()
		return hasLongitude
	case "created_s":
		into.createdS = int64(s.whole(math.MaxUint32))
		return hasCreatedS
	case "updated_s":
		into.updatedS = int64(s.whole(math.MaxUint32))
		return hasUpdatedS
	case "boost_until_s":
		if !s.null() {
			into.boostUntilS = s.whole(math.MaxUint32)
		}
	case "title":
		into.title = titleCodes(string(s.string()))
		return hasTitle
	case "impressions_1h", "impressions_1d", "impressions_7d", "impressions_30d":
		s.counter(&into.counters[0], name)
	case "clicks_1h", "clicks_1d", "clicks_7d", "clicks_30d":
		s.counter(&into.counters[1], name)
	case "contacts_1h", "contacts_1d", "contacts_7d", "contacts_30d":
		s.counter(&into.counters[2], name)
	case "favourites_1h", "favourites_1d", "favourites_7d", "favourites_30d":
		s.counter(&into.counters[3], name)
	case "seller_reviews":
		into.sellerReviews = s.whole(math.MaxUint16)
	case "seller_items":
		into.sellerItems = s.whole(math.MaxUint16)
	case "seller_reply_minutes":
		if !s.null() {
			into.sellerReplyMinutes = float64(s.whole(math.MaxUint16))
		}
	case "seller_rating":
		into.sellerRating = s.known()
	case "description_chars":
		into.descriptionChars = s.whole(math.MaxUint16)
	case "quality":
		into.quality = s.number()
		return hasQuality
	case "photo_quality":
		into.photoQuality = s.known()
	case "text_quality":
		into.textQuality = s.number()
		return hasTextQuality
	case "category":
		into.category = categoryCalled(string(s.string()))
		return hasCategory
	case "images":
		into.images = uint8(s.whole(math.MaxUint8))
	case "attributes":
		into.attributes = uint8(s.whole(math.MaxUint8))
	case "attributes_asked":
		into.attributesAsked = uint8(s.whole(math.MaxUint8))
	case "boost":
		into.boost = uint8(s.whole(math.MaxUint8))
	case "is_company":
		into.isCompany = s.flag()
		return hasIsCompany
	case "has_delivery":
		into.hasDelivery = s.flag()
		return hasHasDelivery
	case "topics":
		if !s.null() {
			into.isOlder = false
			s.topics(&into.topics)
		}
	case "dwell_s":
		into.dwellS = s.newer(into)
	case "mean_position":
		into.meanPosition = s.newer(into)
	case "fraud_risk":
		into.fraudRisk = s.newer(into)
	case "demand":
		into.demand = s.newer(into)
	default:
		s.skip()
	}
	return 0
}

// newer reads a field that an older version lacks.
func (s *scanner) newer(into *item) float64 {
	value := s.known()
	if !math.IsNaN(value) {
		into.isOlder = false
	}
	return value
}

func (s *scanner) counter(into *[windows]uint32, name string) {
	window := 0
	switch name[len(name)-2:] {
	case "1d":
		window = 1
	case "7d":
		window = 2
	case "0d":
		window = 3
	}
	into[window] = s.whole(math.MaxUint32)
}

func (s *scanner) topics(into *[topicCount]int8) {
	if !s.next('[') {
		s.failed = true
	}
	for place := range into {
		if place > 0 && !s.next(',') {
			s.failed = true
			return
		}
		value := s.number()
		if value != math.Trunc(value) || value < math.MinInt8 || value > math.MaxInt8 {
			s.failed = true
			return
		}
		into[place] = int8(value)
	}
	if !s.next(']') {
		s.failed = true
	}
}

func categoryCalled(name string) int {
	for number, one := range categories {
		if one == name {
			return number
		}
	}
	return categoryCount
}

// scanner goes through JSON text once; after something unexpected it has failed.
type scanner struct {
	text   []byte
	at     int
	failed bool
}

func (s *scanner) ok() bool { return !s.failed && s.at < len(s.text) }

func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\n' || s.text[s.at] == '\t' || s.text[s.at] == '\r') {
		s.at++
	}
}

func (s *scanner) ended() bool {
	s.space()
	return s.at == len(s.text)
}

// next takes this byte if it is the next one after spaces.
func (s *scanner) next(wanted byte) bool {
	s.space()
	if s.at < len(s.text) && s.text[s.at] == wanted {
		s.at++
		return true
	}
	return false
}

func (s *scanner) word(wanted string) bool {
	s.space()
	if end := s.at + len(wanted); end <= len(s.text) && string(s.text[s.at:end]) == wanted {
		s.at = end
		return true
	}
	return false
}

func (s *scanner) null() bool { return s.word("null") }

func (s *scanner) flag() bool {
	if s.word("true") {
		return true
	}
	if !s.word("false") {
		s.failed = true
	}
	return false
}

// string reads a string.
func (s *scanner) string() []byte {
	if !s.next('"') {
		s.failed = true
		return nil
	}
	begin, escaped := s.at, false
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '"':
			found := s.text[begin:s.at]
			s.at++
			if escaped {
				return s.unescaped(begin)
			}
			return found
		case '\\':
			escaped = true
			s.at++
		}
	}
	s.failed = true
	return nil
}

func (s *scanner) unescaped(begin int) []byte {
	var text string
	if json.Unmarshal(s.text[begin-1:s.at], &text) != nil {
		s.failed = true
	}
	return []byte(text)
}

// literal reads the bytes of a number.
func (s *scanner) literal() []byte {
	s.space()
	begin := s.at
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			s.at++
			continue
		}
		break
	}
	return s.text[begin:s.at]
}

func (s *scanner) whole(largest uint64) uint32 {
	var value uint64
	found := s.literal()
	for _, c := range found {
		if c < '0' || c > '9' || value > largest {
			s.failed = true
			return 0
		}
		value = 10*value + uint64(c-'0')
	}
	if len(found) == 0 || value > largest {
		s.failed = true
	}
	return uint32(value)
}

func (s *scanner) known() float64 {
	if s.null() {
		return math.NaN()
	}
	return s.number()
}

var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// number reads a number to the nearest double: a quotient of two exact doubles is, others are strconv's work.
func (s *scanner) number() float64 {
	found := s.literal()
	digits, fraction, point := uint64(0), 0, false
	rest := found
	if len(rest) > 0 && rest[0] == '-' {
		rest = rest[1:]
	}
	for _, c := range rest {
		switch {
		case c >= '0' && c <= '9' && digits < 1e14:
			digits = 10*digits + uint64(c-'0')
			if point {
				fraction++
			}
		case c == '.' && !point:
			point = true
		default:
			return s.parsed(found)
		}
	}
	if len(rest) == 0 || fraction >= len(tens) {
		return s.parsed(found)
	}
	value := float64(digits) / tens[fraction]
	if len(rest) < len(found) {
		return -value
	}
	return value
}

func (s *scanner) parsed(found []byte) float64 {
	value, err := strconv.ParseFloat(string(found), 64)
	if err != nil || len(found) == 0 {
		s.failed = true
	}
	return value
}

// skip passes over a value that is not looked at.
func (s *scanner) skip() {
	s.space()
	if s.at == len(s.text) {
		s.failed = true
		return
	}
	switch s.text[s.at] {
	case '"':
		s.string()
	case '[', '{':
		s.skipNested()
	case 't', 'f':
		s.flag()
	case 'n':
		s.failed = s.failed || !s.null()
	default:
		s.number()
	}
}

func (s *scanner) skipNested() {
	depth := 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.string()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		s.at++
		if depth == 0 {
			return
		}
	}
	s.failed = true
}
