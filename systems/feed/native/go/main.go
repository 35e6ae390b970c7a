// The features in Go as a C library: what Avito tried before rewriting their service. Loaded by go_features.py.
package main

import "C"

import "unsafe"

// feed_features writes the features of `count` stored items; value i lies at ends[i-1] to ends[i] of `values`.
//
// `form` is 0 for packed records, 1 for JSON. `columns` has room for count x 60 float32 and is filled column-major with
// a stride of `count`; `places` says which value each row is. An empty or unreadable value has no row.
// Returns the number of rows; -1 when the user is not userBytes long.
//
//export feed_features
func feed_features(form C.int, values *C.char, ends *C.uint, count C.int, user *C.char, userLength C.int, nowS C.longlong, columns *C.float, places *C.uint) C.int {
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
	where := unsafe.Slice((*uint32)(unsafe.Pointer(places)), n)
	v := newViewer(unsafe.Slice((*byte)(unsafe.Pointer(user)), userBytes), int64(nowS))
	read := readRecord
	if form == 1 {
		read = readJSON
	}
	var it item
	var row [featureCount]float32
	rows, begin := 0, uint32(0)
	for place, end := range stops {
		value := all[begin:end]
		begin = end
		if !read(value, &it) {
			continue
		}
		v.write(&it, &row)
		for feature, value := range row {
			out[feature*n+rows] = value
		}
		where[rows] = uint32(place)
		rows++
	}
	return C.int(rows)
}

func main() {}
