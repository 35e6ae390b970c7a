// The features in Go as a C library: what Avito tried before rewriting their service. Loaded by go_features.py.
package main

import "C"

import "unsafe"

// Columns of `found`.
const (
	foundItem = iota
	foundSeller
	foundCategory
	foundBoost // in force at nowS
	foundOlder // 1 = stored by an older version
	foundPlace // which value the row is
	foundCount
)

// feed_features writes the features of `count` items stored as JSON; value i lies at ends[i-1] to ends[i] of `values`.
//
// `columns` has room for count x 60 float32, `found` for count x 6 uint32; both
// are filled column-major with a stride of `count`. An empty or unreadable value has no row.
// Returns the number of rows; -1 when the user is not userBytes long.
//
//export feed_features
func feed_features(values *C.char, ends *C.uint, count C.int, user *C.char, userLength C.int, nowS C.longlong, columns *C.float, found *C.uint) C.int {
	if userLength != userBytes {
		return -1
	}
	n := int(count)
	if n == 0 {
		return 0
	}
	stops := unsafe.Slice((*uint32)(unsafe.Pointer(ends)), n)
	all := unsafe.Slice((*byte)(unsafe.Pointer(values)), int(stops[n-1]))
	out := unsafe.Slice((*float32)(unsafe.Pointer(columns)), n*featureCount)
	told := unsafe.Slice((*uint32)(unsafe.Pointer(found)), n*foundCount)
	v := newViewer(unsafe.Slice((*byte)(unsafe.Pointer(user)), userBytes), int64(nowS))
	var it item
	var row [featureCount]float32
	rows, begin := 0, uint32(0)
	for place, end := range stops {
		value := all[begin:end]
		begin = end
		if !readJSON(value, &it) {
			continue
		}
		v.write(&it, &row)
		for feature, value := range row {
			out[feature*n+rows] = value
		}
		for column, value := range v.found(&it, place) {
			told[column*n+rows] = value
		}
		rows++
	}
	return C.int(rows)
}

func (v *viewer) found(it *item, place int) [foundCount]uint32 {
	told := [foundCount]uint32{it.itemID, it.sellerID, uint32(it.category), 0, 0, uint32(place)}
	if int64(it.boostUntilS) > v.nowS {
		told[foundBoost] = uint32(it.boost)
	}
	if it.isOlder {
		told[foundOlder] = 1
	}
	return told
}

func main() {}
