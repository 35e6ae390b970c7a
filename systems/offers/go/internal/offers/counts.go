package offers

import (
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"greenlane/offers/internal/calls"
	"greenlane/offers/internal/program"
	"greenlane/offers/internal/table"
)

// Why an offer is missing.
const (
	made    = "made"
	late    = "late"
	refused = "refused"
	failed  = "failed"
)

// Row is what became of one mode's offers in one region, since the start.
type Row struct {
	Mode   string `json:"mode"`
	Region string `json:"region"`
	// Priced is whether pricingservice is asked.
	Priced  bool `json:"priced"`
	Asked   int  `json:"asked"`
	Made    int  `json:"made"`
	Late    int  `json:"late"`
	Refused int  `json:"refused"`
	Failed  int  `json:"failed"`
	// Wasted counts replies of pricingservice that nobody used, and calls that were given up.
	Wasted int `json:"wasted"`
	// WastedMs is how long pricingservice had those, as seen from here.
	WastedMs float64 `json:"wasted_ms"`
	// Cancelled is those of Wasted that were given up: at the cap if calls are to be cancelled, else after 20 s.
	Cancelled int `json:"cancelled"`
	// Buckets is latencies of pricingservice's replies (200), [upper bound in ms, count], exact to 0.1 %, late ones
	// included. Calls that were given up, here or there, are in it at the time they were: they would have taken longer.
	Buckets [][2]float64 `json:"buckets_ms"`
}

const (
	// Latencies are counted in microseconds, from 1 to what a call may take at most and a bit.
	mostUs  = int64((calls.Patience + 5*time.Second) / time.Microsecond)
	figures = 3
)

// tally is a Row that is being counted. Safe for use by many goroutines.
type tally struct {
	mutex     sync.Mutex
	row       Row
	latencies *hdrhistogram.Histogram
}

// counts is the tallies of all modes and regions; the map is never changed.
type counts struct {
	order []*tally
	of    map[[2]string]*tally
}

func newCounts(modes []table.Mode, regions []string) *counts {
	found := &counts{of: map[[2]string]*tally{}}
	for _, region := range regions {
		for _, mode := range modes {
			one := &tally{
				row:       Row{Mode: mode.Name, Region: region, Priced: mode.Price != ""},
				latencies: hdrhistogram.New(1, mostUs, figures),
			}
			found.order = append(found.order, one)
			found.of[[2]string{mode.Name, region}] = one
		}
	}
	return found
}

func (t *tally) asked() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.row.Asked++
}

// ended counts what a rider got of it.
func (t *tally) ended(outcome string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	switch outcome {
	case made:
		t.row.Made++
	case late:
		t.row.Late++
	case refused:
		t.row.Refused++
	default:
		t.row.Failed++
	}
}

// priced counts a call of pricingservice when it is over.
func (t *tally) priced(call priceCall, used bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if call.answered || call.cancelled || call.expired {
		// Beyond the histogram's end is its end: a call cannot take longer.
		t.latencies.RecordValue(min(mostUs, max(1, call.took.Microseconds())))
	}
	if call.cancelled {
		t.row.Cancelled++
	}
	if !used && (call.answered || call.cancelled || call.expired) {
		t.row.Wasted++
		t.row.WastedMs += calls.Ms(call.took)
	}
}

func (t *tally) read() Row {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	found := t.row
	found.Buckets = [][2]float64{}
	if t.latencies.TotalCount() == 0 {
		return found
	}
	for _, bar := range t.latencies.Distribution() {
		if bar.Count > 0 {
			found.Buckets = append(found.Buckets, [2]float64{float64(bar.To) / 1e3, float64(bar.Count)})
		}
	}
	return found
}

func (c *counts) serve(w http.ResponseWriter, _ *http.Request) {
	rows := make([]Row, len(c.order))
	for at, one := range c.order {
		rows[at] = one.read()
	}
	program.Answer(w, http.StatusOK, map[string][]Row{"modes": rows})
}
