// Package drawn has numbers that follow from names alone: whoever asks with the same id gets the same, in Go and in
// Python (offers/table.py).
package drawn

import "math"

const (
	offset = 0xcbf29ce484222325
	prime  = 0x100000001b3
	// z99 is the standard normal distribution's 99th percentile.
	z99 = 2.3263478740408408
)

// Number is FNV-1a (64 bits) of "what|name", finished by MurmurHash3's mixer: FNV's own high bits hardly depend on the
// last letters.
func Number(what, name string) uint64 {
	state := add(add(add(offset, what), "|"), name)
	state = (state ^ state>>33) * 0xff51afd7ed558ccd
	state = (state ^ state>>33) * 0xc4ceb9fe1a85ec53
	return state ^ state>>33
}

func add(state uint64, text string) uint64 {
	for i := 0; i < len(text); i++ {
		state = (state ^ uint64(text[i])) * prime
	}
	return state
}

// Uniform is a number between 0 and 1, both excluded.
func Uniform(what, name string) float64 {
	return (float64(Number(what, name)>>11) + 0.5) / (1 << 53)
}

// Lognormal is one draw of a latency law, bounded from above.
func Lognormal(what, name string, median, p99, atMost float64) float64 {
	spread := math.Log(p99/median) / z99
	z := math.Sqrt2 * math.Erfinv(2*Uniform(what, name)-1)
	return math.Min(atMost, median*math.Exp(spread*z))
}
