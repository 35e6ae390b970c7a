package offers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"greenlane/offers/internal/calls"
	"greenlane/offers/internal/drawn"
	"greenlane/offers/internal/table"
)

// journey is what a rider asks: one poll.
type journey struct {
	id     string
	region string
	// w multiplies pricingservice's CPU; "" = as it is.
	w     string
	began time.Time
	// due is when an offer that is not made is left out.
	due     time.Time
	targets *Targets
}

// Offer of one mode.
type Offer struct {
	Mode       string          `json:"mode"`
	PriceCents int             `json:"price_cents"`
	EtaS       int             `json:"eta_s"`
	Route      json.RawMessage `json:"route"`
	Ms         float64         `json:"ms"`
}

// said is what pricingservice and upstreams reply, all of them.
type said struct {
	PriceCents    int             `json:"price_cents"`
	EtaS          int             `json:"eta_s"`
	Route         json.RawMessage `json:"route"`
	Metres        int             `json:"metres"`
	FactorPercent int             `json:"factor_percent"`
}

// priceCall is what became of a call of pricingservice.
type priceCall struct {
	took time.Duration
	// answered: 200. expired: 504, it gave up by itself. cancelled: given up here, at the cap or when patience ended.
	answered, expired, cancelled bool
}

// making is one mode's offer while it is made. The calls and the rider's patience race for its end: whoever comes first
// decides whether the offer is used.
type making struct {
	mode  table.Mode
	tally *tally
	// offer and err are there once done is closed.
	done  chan struct{}
	offer Offer
	err   error
	// settled by the first of both.
	settled atomic.Bool
}

// settle is true for who comes first.
func (m *making) settle() bool { return m.settled.CompareAndSwap(false, true) }

// walkMPerS is how fast people walk: 5 km/h.
const walkMPerS = 1.4

// run makes the offer: the price and the mode's own calls, all at once. ctx ends at the cap if calls are to be cancelled.
func (s *Service) run(ctx context.Context, m *making, j *journey) {
	var all sync.WaitGroup
	replies, errs := make([]said, len(m.mode.Calls)+1), make([]error, len(m.mode.Calls)+1)
	var price priceCall
	for at, upstream := range m.mode.Calls {
		begin(&all, func() { replies[at], errs[at] = s.ask(ctx, upstream, m.mode.Name, at+1, j) })
	}
	last := len(m.mode.Calls)
	if m.mode.Price != "" {
		begin(&all, func() { replies[last], price, errs[last] = s.price(ctx, m.mode, j) })
	}
	all.Wait()
	m.err = errors.Join(errs...)
	if m.err == nil {
		m.offer = offered(m.mode, replies, j)
	}
	used := m.settle() && m.err == nil
	if m.mode.Price != "" {
		m.tally.priced(price, used)
	}
	close(m.done)
}

// offered puts replies together: the mode's own calls have the last word, the price is pricingservice's where it is asked.
func offered(mode table.Mode, replies []said, j *journey) Offer {
	last := len(replies) - 1
	made := Offer{Mode: mode.Name, EtaS: replies[last].EtaS, Route: replies[last].Route, Ms: calls.Ms(time.Since(j.began))}
	factor := 100
	for at, upstream := range mode.Calls {
		switch upstream {
		case "eta":
			made.EtaS = replies[at].EtaS
		case "routing":
			made.Route = replies[at].Route
			if made.EtaS == 0 {
				made.EtaS = int(float64(replies[at].Metres) / walkMPerS)
			}
		case "rules":
			factor = replies[at].FactorPercent
		}
	}
	made.PriceCents = replies[last].PriceCents
	if mode.Price == "" && mode.BaseCents > 0 {
		made.PriceCents = (mode.BaseCents + int(drawn.Number("price-"+mode.Name, j.id)%300)) * factor / 100
	}
	if made.Route == nil {
		made.Route = json.RawMessage("[]")
	}
	return made
}

// ask is the n-th of a mode's own calls.
func (s *Service) ask(ctx context.Context, upstream, mode string, n int, j *journey) (said, error) {
	address, known := s.upstreams[upstream]
	if !known {
		return said{}, fmt.Errorf("ask %s: no address, expected it among -upstreams", upstream)
	}
	to := &url.URL{Scheme: "http", Host: address, Path: "/" + upstream, RawQuery: url.Values{
		"id": {j.id + "-" + mode + "-o" + strconv.Itoa(n)}, "region": {j.region}, "endpoint": {"offerservice"},
	}.Encode()}
	reply, err := s.client.Get(ctx, upstream, to, s.headers(j))
	if err != nil {
		return said{}, err
	}
	return told(upstream, reply)
}

// price asks pricingservice.
func (s *Service) price(ctx context.Context, mode table.Mode, j *journey) (said, priceCall, error) {
	query := url.Values{"id": {j.id + "-" + mode.Name}, "region": {j.region}}
	if j.w != "" {
		query.Set("w", j.w)
	}
	to, err := url.Parse(j.targets.of(mode.Name) + s.paths[mode.Price] + "?" + query.Encode())
	if err != nil {
		return said{}, priceCall{}, err
	}
	reply, err := s.client.Get(ctx, "pricing", to, s.headers(j))
	givenUp := ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
	call := priceCall{took: reply.Took, answered: err == nil, cancelled: err != nil && givenUp}
	var other calls.Status
	if errors.As(err, &other) {
		call.took, call.expired = other.Took, other.Code == http.StatusGatewayTimeout
	}
	if err != nil {
		return said{}, call, err
	}
	found, err := told("pricing", reply)
	return found, call, err
}

// headers of a call: how long its answer is of use.
func (s *Service) headers(j *journey) http.Header {
	headers := http.Header{}
	if s.propagate {
		left := max(1, time.Until(j.due).Milliseconds())
		headers[deadlineHeader] = []string{strconv.FormatInt(left, 10)}
	}
	return headers
}

func told(whom string, reply calls.Reply) (said, error) {
	var found said
	if err := json.Unmarshal(reply.Body, &found); err != nil {
		return found, fmt.Errorf("ask %s: %w", whom, err)
	}
	return found, nil
}

// why an offer is missing, by the error that it ended with.
func why(err error) string {
	var other calls.Status
	switch {
	case errors.As(err, &other) && (other.Code == http.StatusServiceUnavailable || other.Code == http.StatusTooManyRequests):
		return refused
	case errors.As(err, &other) && other.Code == http.StatusGatewayTimeout, errors.Is(err, context.DeadlineExceeded):
		return late
	}
	return failed
}

func begin(all *sync.WaitGroup, what func()) {
	all.Add(1)
	go func() {
		defer all.Done()
		what()
	}()
}
