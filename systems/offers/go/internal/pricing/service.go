// Package pricing is the twin of the pricing service in Flask: the same endpoints from the same table, the same CPU and
// upstream calls, the same replies, as one writes them in Go: net/http, a goroutine a request, one pool of connections.
// A caller that has gone, or said how long it waits, ends the request: at its next call, or after what it computes.
package pricing

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"greenlane/offers/internal/calls"
	"greenlane/offers/internal/drawn"
	"greenlane/offers/internal/program"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
	"greenlane/offers/internal/work"
)

// closedByCaller is nginx's status of a request whose caller has gone; nobody reads it.
const closedByCaller = 499

// Service answers for a table's endpoints. Safe for use by many goroutines.
type Service struct {
	// host:port by name.
	upstreams map[string]string
	rates     work.Rates
	client    *calls.Client
	tracing   *tracing.Tracing
	// turns is taken by what computes for a heavy or mixed endpoint; nil = no limit.
	turns chan struct{}
}

// New is a service. heavyAtOnce is how many heavy and mixed requests compute at the same time; 0 = no limit, as in the
// twin.
func New(upstreams map[string]string, rates work.Rates, tracing *tracing.Tracing, heavyAtOnce int) *Service {
	made := &Service{upstreams: upstreams, rates: rates, client: calls.NewClient(tracing), tracing: tracing}
	if heavyAtOnce > 0 {
		made.turns = make(chan struct{}, heavyAtOnce)
	}
	return made
}

// Handler has all routes.
func (s *Service) Handler(endpoints []table.Endpoint) http.Handler {
	mux := http.NewServeMux()
	for at := range endpoints {
		mux.Handle("GET "+endpoints[at].Path, s.tracing.Served(endpoints[at].Path, s.priced(&endpoints[at])))
	}
	for _, path := range []string{"/healthz", "/ready"} {
		mux.HandleFunc("GET "+path, program.Up)
	}
	return mux
}

func (s *Service) priced(endpoint *table.Endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := read(endpoint.Name, r.URL.Query())
		if err != nil {
			program.Answer(w, http.StatusBadRequest, program.Failure{Error: err.Error()})
			return
		}
		ctx, cancel := until(r)
		defer cancel()
		done, err := s.run(ctx, endpoint, asked)
		if err != nil {
			program.Answer(w, status(err), program.Failure{Error: err.Error()})
			return
		}
		done.tell(w.Header())
		program.Answer(w, http.StatusOK, reply(endpoint, asked, done))
	})
}

// offer is the reply of an endpoint that prices a journey.
type offer struct {
	PriceCents uint64          `json:"price_cents"`
	EtaS       int             `json:"eta_s"`
	Route      json.RawMessage `json:"route"`
}

// value is every other endpoint's reply.
type value struct {
	Endpoint string `json:"endpoint"`
	ID       string `json:"id"`
	Value    uint64 `json:"value"`
}

func reply(endpoint *table.Endpoint, asked asked, done *done) any {
	if endpoint.Kind != "offer" {
		return value{endpoint.Name, asked.id, drawn.Number("value-"+endpoint.Name, asked.id) % 1000}
	}
	route := done.route
	if route == nil {
		route = json.RawMessage("[]")
	}
	return offer{100 + drawn.Number("price-"+endpoint.Name, asked.id)%900, done.etaS, route}
}

func status(err error) int {
	var upstream unavailable
	switch {
	case errors.As(err, &upstream):
		return http.StatusBadGateway
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return closedByCaller
}
