// Package offers makes the offers of a journey: each mode on its own and in parallel, at most for the cap, late ones left
// out. A late offer's calls go on unless they are to be cancelled: their replies are read, timed and counted as wasted.
package offers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"greenlane/offers/internal/calls"
	"greenlane/offers/internal/program"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
)

const deadlineHeader = "X-Envoy-Expected-Rq-Timeout-Ms"

// Plan is how a service makes offers.
type Plan struct {
	// Cap is how long one offer may take.
	Cap time.Duration
	// Cancel ends what is asked for an offer at the cap; else it goes on.
	Cancel bool
	// Propagate tells everybody who is asked how long an answer is of use.
	Propagate bool
	// Upstreams is host:port by name.
	Upstreams map[string]string
	Targets   *Targets
}

// Service makes offers. Safe for use by many goroutines.
type Service struct {
	modes     []table.Mode
	regions   []string
	upstreams map[string]string
	// By endpoint of pricingservice.
	paths     map[string]string
	cap       time.Duration
	cancel    bool
	propagate bool
	client    *calls.Client
	tracing   *tracing.Tracing
	counts    *counts
	point     point
	// Offers that are being made, those that nobody waits for included.
	open sync.WaitGroup
}

// New is a service of the table's modes and regions.
func New(described table.Table, plan Plan, tracing *tracing.Tracing) *Service {
	made := &Service{
		modes: described.Modes, regions: described.Regions, upstreams: plan.Upstreams, paths: map[string]string{},
		cap: plan.Cap, cancel: plan.Cancel, propagate: plan.Propagate,
		client: calls.NewClient(tracing), tracing: tracing,
		counts: newCounts(described.Modes, described.Regions), point: point{modes: described.ModeNames()},
	}
	for _, mode := range described.Modes {
		if endpoint, priced := described.Endpoint(mode.Price); priced {
			made.paths[mode.Price] = endpoint.Path
		}
	}
	made.point.targets.Store(plan.Targets)
	return made
}

// Handler has all routes.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /offers", s.tracing.Served("/offers", http.HandlerFunc(s.offers)))
	mux.HandleFunc("GET /counts", s.counts.serve)
	mux.HandleFunc("GET /pricing", s.point.read)
	mux.HandleFunc("POST /pricing", s.point.change)
	for _, path := range []string{"/healthz", "/ready"} {
		mux.HandleFunc("GET "+path, program.Up)
	}
	return mux
}

// Drain waits for offers that nobody waits for any more; at most so long.
func (s *Service) Drain(most time.Duration) {
	done := make(chan struct{})
	go func() {
		s.open.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}

// Missing is an offer that was not made.
type Missing struct {
	Mode string `json:"mode"`
	Why  string `json:"why"`
}

// Made is the answer to a poll.
type Made struct {
	ID      string    `json:"id"`
	Offers  []Offer   `json:"offers"`
	Missing []Missing `json:"missing"`
	Ms      float64   `json:"ms"`
}

func (s *Service) offers(w http.ResponseWriter, r *http.Request) {
	j, err := s.read(r)
	if err != nil {
		program.Answer(w, http.StatusBadRequest, program.Failure{Error: err.Error()})
		return
	}
	// What was begun goes on when the rider has gone: as in the article, nobody is told.
	ctx := context.WithoutCancel(r.Context())
	if s.cancel {
		var ended context.CancelFunc
		ctx, ended = context.WithDeadline(ctx, j.due)
		defer ended()
	}
	program.Answer(w, http.StatusOK, s.collect(ctx, j))
}

func (s *Service) read(r *http.Request) (*journey, error) {
	query := r.URL.Query()
	began := time.Now()
	j := &journey{
		id: query.Get("id"), region: query.Get("region"), w: query.Get("w"),
		began: began, due: began.Add(s.cap), targets: s.point.targets.Load(),
	}
	if !slices.Contains(s.regions, j.region) {
		return nil, fmt.Errorf("make offers: region=%q, expected one of %s", j.region, strings.Join(s.regions, ", "))
	}
	if j.id == "" {
		j.id = strconv.FormatUint(rand.Uint64(), 36)
	}
	return j, nil
}

// collect begins all modes, and takes each when it is made or the cap is over, whichever is first.
func (s *Service) collect(ctx context.Context, j *journey) Made {
	cap := time.NewTimer(time.Until(j.due))
	defer cap.Stop()
	begun := make([]*making, len(s.modes))
	spans := make([]trace.Span, len(s.modes))
	for at, mode := range s.modes {
		one := &making{mode: mode, tally: s.counts.of[[2]string{mode.Name, j.region}], done: make(chan struct{})}
		one.tally.asked()
		var below context.Context
		below, spans[at] = s.tracing.Span(ctx, "offer "+mode.Name, trace.SpanKindInternal, attribute.String("offers.mode", mode.Name))
		begun[at] = one
		s.open.Add(1)
		go func() {
			defer s.open.Done()
			s.run(below, one, j)
		}()
	}
	found := Made{ID: j.id, Offers: []Offer{}, Missing: []Missing{}}
	over := false
	for at, one := range begun {
		outcome := one.outcome(cap.C, &over)
		one.tally.ended(outcome)
		spans[at].SetAttributes(attribute.String("offers.outcome", outcome))
		spans[at].End()
		if outcome == made {
			found.Offers = append(found.Offers, one.offer)
		} else {
			found.Missing = append(found.Missing, Missing{one.mode.Name, outcome})
		}
	}
	found.Ms = calls.Ms(time.Since(j.began))
	return found
}

// outcome waits for an offer or the cap; `over` is set once the cap has been seen.
func (m *making) outcome(cap <-chan time.Time, over *bool) string {
	if !*over {
		select {
		case <-m.done:
		case <-cap:
			*over = true
		}
	}
	// An offer that came at the last moment has been settled by those who made it.
	if *over && m.settle() {
		return late
	}
	<-m.done
	if m.err != nil {
		return why(m.err)
	}
	return made
}
