package drawn

import (
	"math"
	"strconv"
	"testing"
)

// Numbers that offers/table.py and offers/upstreams/server.py give.
func TestNumbersArePythons(t *testing.T) {
	for _, one := range []struct {
		what, name string
		number     uint64
	}{
		{"price-bikes_price", "r1-bikes", 14352027838622695094},
		{"", "", 580534795105340497},
		{"reply-eta", "é|7", 18117598451504634503},
	} {
		if found := Number(one.what, one.name); found != one.number {
			t.Errorf("Number(%q, %q) = %d, expected %d", one.what, one.name, found, one.number)
		}
	}
	if found := Uniform("price-bikes_price", "r1-bikes"); found != 0.7780249881103583 {
		t.Errorf("Uniform = %v", found)
	}
}

func TestLatenciesArePythons(t *testing.T) {
	for _, one := range []struct {
		name                string
		median, p99, atMost float64
		drawn               []float64
	}{
		{"eta", 45, 64, 80, []float64{47.821281910078675, 48.66047028765974, 48.26817277964385}},
		{"routing", 105, 135, 150, []float64{89.16775477440314, 99.3013174021431, 109.66799854123728}},
	} {
		for n, expected := range one.drawn {
			found := Lognormal(one.name, "r"+strconv.Itoa(n)+"-bikes-1", one.median, one.p99, one.atMost)
			if math.Abs(found-expected) > 1e-9*expected {
				t.Errorf("%s, r%d: %v, expected %v", one.name, n, found, expected)
			}
		}
	}
}

func TestOneOfAHundredExceedsThePercentileAndNoneTheBound(t *testing.T) {
	above, sum := 0, 0.0
	for n := range 20_000 {
		found := Lognormal("eta", "id-"+strconv.Itoa(n), 45, 64, 80)
		if found > 64 {
			above++
		}
		if found > 80 {
			t.Fatalf("id-%d: %v, expected 80 at most", n, found)
		}
		sum += found
	}
	if above < 150 || above > 250 {
		t.Errorf("%d of 20,000 above the 99th percentile", above)
	}
	if expected := 909679.0701644471; math.Abs(sum-expected) > 1e-6*expected {
		t.Errorf("sum %v, expected Python's %v", sum, expected)
	}
}
