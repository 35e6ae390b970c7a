// Package work has the kinds of CPU work of the pricing service, counted in iterations, and how many of them make one
// millisecond of this machine's CPU. They are those of offers/work.py, written as Go is written: an iteration is another
// amount here, a calibrated millisecond the same.
package work

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"greenlane/offers/internal/settings"
)

// MostMs is all CPU of one request, in calibrated milliseconds; above anything that is drawn on purpose.
const MostMs = 5000.0

// variable has iterations in one millisecond, a JSON object by kind.
const variable = "OFFERS_ITERATIONS"

const (
	// A round sees the garbage collector as often as the work does: what allocates most calls it every few milliseconds.
	roundMs = 10.0
	// Rounds of a calibration.
	Rounds = 15
)

var kinds = map[string]func(int) int{
	"burn":     burn,
	"geometry": geometry,
	"json":     documents,
	"regex":    expressions,
	"sort":     order,
	"template": pages,
}

// Rates is iterations in one millisecond of CPU, by kind.
type Rates map[string]float64

// Kinds in alphabetical order.
func Kinds() []string {
	found := make([]string, 0, len(kinds))
	for kind := range kinds {
		found = append(found, kind)
	}
	slices.Sort(found)
	return found
}

// Perform does iterations of a kind; nothing in it waits. The number depends on iterations alone.
func Perform(kind string, iterations int) int { return kinds[kind](iterations) }

// Iterations of a kind in so many calibrated milliseconds, at least 1.
func (r Rates) Iterations(kind string, cpuMs float64) int { return max(1, int(cpuMs*r[kind])) }

// FromEnvironment is what OFFERS_ITERATIONS says; measured now when it is unset.
func FromEnvironment(doing string) (Rates, error) {
	text := os.Getenv(variable)
	if text == "" {
		return Calibrate(Rounds), nil
	}
	found := Rates{}
	err := json.Unmarshal([]byte(text), &found)
	for kind := range kinds {
		if err != nil || !(found[kind] > 0) || math.IsInf(found[kind], 0) {
			rule := "a JSON object with iterations in 1 ms for each of " + strings.Join(Kinds(), ", ")
			return nil, settings.Wrong{
				Doing: doing, Name: variable, Value: text, Rule: rule, Hint: "pricing -calibrate prints one",
			}
		}
	}
	return found, nil
}

// Calibrate measures how many iterations of each kind make one millisecond of CPU time.
//
// It is the process's clock that is read, while nothing else runs in it: what the collector does on other threads is part
// of what allocating work costs, 1 to 3 % (a thread's clock would not see it, and the service would cost more than it
// says). Of so many rounds of about 10 ms it takes the lower quartile of their times: neighbours slow a round down
// (caches, a core's other thread), nothing makes one faster. Kinds take turns, so that a slow moment is everybody's. Cost:
// some 1 s.
func Calibrate(rounds int) Rates {
	sizes := map[string]int{}
	for kind, call := range kinds {
		sizes[kind] = roundOf(call)
	}
	times := map[string][]float64{}
	for range max(2, rounds) {
		for kind, call := range kinds {
			times[kind] = append(times[kind], tookMs(call, sizes[kind]))
		}
	}
	found := Rates{}
	for kind, took := range times {
		slices.Sort(took)
		found[kind] = float64(sizes[kind]) / took[len(took)/4]
	}
	return found
}

// roundOf is how many iterations take about a round's time.
func roundOf(call func(int) int) int {
	size := 64
	for took := tookMs(call, size); took < roundMs/2; took = tookMs(call, size) {
		size = max(size+1, min(size*8, int(float64(size)*roundMs/max(took, 1e-3))))
	}
	return size
}

func tookMs(call func(int) int, iterations int) float64 {
	began := processCPU()
	call(iterations)
	return float64(processCPU()-began) / float64(time.Millisecond)
}

func processCPU() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		panic(err) // Linux has had this clock since 2.6.12
	}
	return time.Duration(now.Nano())
}
