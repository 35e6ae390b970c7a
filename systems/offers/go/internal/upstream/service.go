// Package upstream is the services that pricing and offerservice ask: a latency law that follows from the request's id,
// some CPU of its own inside it, its own clock in a header.
package upstream

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"greenlane/offers/internal/calls"
	"greenlane/offers/internal/drawn"
	"greenlane/offers/internal/program"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
	"greenlane/offers/internal/work"
)

// Service is the upstreams of one process.
type Service struct {
	upstreams []table.Upstream
	rates     work.Rates
	tracing   *tracing.Tracing

	mutex sync.Mutex
	// By the endpoint on whose behalf it was asked.
	calls map[string]int
}

// New is a service of some of the table's upstreams.
func New(upstreams []table.Upstream, rates work.Rates, tracing *tracing.Tracing) *Service {
	return &Service{upstreams: upstreams, rates: rates, tracing: tracing, calls: map[string]int{}}
}

// Handler has all routes.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, one := range s.upstreams {
		mux.Handle("GET /"+one.Name, s.tracing.Served("/"+one.Name, s.of(one)))
	}
	mux.HandleFunc("GET /counts", s.counts)
	for _, path := range []string{"/healthz", "/ready"} {
		mux.HandleFunc("GET "+path, program.Up)
	}
	return mux
}

// of is one upstream's handler. Its clock runs from here, the request read, to before the reply is written.
func (s *Service) of(one table.Upstream) http.Handler {
	burns := 0
	if one.CPUMs > 0 {
		burns = s.rates.Iterations("burn", one.CPUMs)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		query := r.URL.Query()
		id := query.Get("id")
		s.count(query.Get("endpoint"))
		latencyMs := drawn.Lognormal(one.Name, id, one.MedianMs, one.P99Ms, one.AtMostMs)
		work.Perform("burn", burns)
		said := reply(one.Name, id)
		due := time.Duration(latencyMs * float64(time.Millisecond))
		select {
		case <-time.After(due - time.Since(began)):
		case <-r.Context().Done(): // the caller has gone
		}
		own := strconv.FormatFloat(calls.Ms(time.Since(began)), 'f', 3, 64)
		w.Header()["X-Upstream-Ms"] = []string{own}
		w.Header()["Server-Timing"] = []string{"total;dur=" + own}
		program.Answer(w, http.StatusOK, said)
		tell(r, own)
	})
}

func tell(r *http.Request, own string) {
	if span := trace.SpanFromContext(r.Context()); span.IsRecording() {
		ms, _ := strconv.ParseFloat(own, 64)
		span.SetAttributes(attribute.Float64("offers.upstream_ms", ms))
	}
}

// reply is plausible, and the same for the same id.
func reply(name, id string) map[string]any {
	number := drawn.Number("reply-"+name, id)
	switch name {
	case "eta":
		return map[string]any{"eta_s": 60 + number%840}
	case "routing":
		var route [8][2]uint64
		for at := range route {
			north, east := number>>(8*at)&255, number>>(8*(7-at))&255
			route[at] = [2]uint64{45_700_000 + north*200, 4_800_000 + east*200} // micro-degrees
		}
		return map[string]any{"metres": 300 + number%9000, "route": route}
	case "zones":
		return map[string]any{"zone": number % 64}
	}
	return map[string]any{"factor_percent": 80 + number%61}
}

// mostNames bounds what is counted by name; further ones are counted together.
const mostNames = 1000

func (s *Service) count(endpoint string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, known := s.calls[endpoint]; !known && len(s.calls) >= mostNames {
		endpoint = "others"
	}
	s.calls[endpoint]++
}

func (s *Service) counts(w http.ResponseWriter, _ *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	program.Answer(w, http.StatusOK, map[string]any{"calls": s.calls})
}
