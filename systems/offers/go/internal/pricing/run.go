package pricing

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"greenlane/offers/internal/calls"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/work"
)

// done is what one request came to.
type done struct {
	iterations map[string]int
	calls      []call
	etaS       int
	route      json.RawMessage
}

type call struct {
	upstream string
	tookMs   float64
}

// said is what upstreams reply, all of them.
type said struct {
	EtaS  int             `json:"eta_s"`
	Route json.RawMessage `json:"route"`
}

// unavailable means that an upstream did not answer; the request is answered 502.
type unavailable struct{ error }

// run goes through an endpoint's steps.
func (s *Service) run(ctx context.Context, endpoint *table.Endpoint, asked asked) (*done, error) {
	found := &done{iterations: map[string]int{}}
	w := asked.w * min(1, work.MostMs/max(endpoint.CPUMs()*asked.w, 1e-9))
	for _, step := range endpoint.Steps {
		if step.Call == "" {
			if err := s.compute(ctx, endpoint, found, step.Work, s.rates.Iterations(step.Work, step.CPUMs*w)); err != nil {
				return nil, err
			}
			continue
		}
		for range max(1, step.Times) {
			if err := s.ask(ctx, endpoint, asked, found, step.Call); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func (s *Service) compute(ctx context.Context, endpoint *table.Endpoint, found *done, kind string, iterations int) error {
	if s.turns != nil && (endpoint.Kind == "heavy" || endpoint.Kind == "mixed") {
		select {
		case s.turns <- struct{}{}:
			defer func() { <-s.turns }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	work.Perform(kind, iterations)
	found.iterations[kind] += iterations
	return ctx.Err()
}

func (s *Service) ask(ctx context.Context, endpoint *table.Endpoint, asked asked, found *done, upstream string) error {
	address, known := s.upstreams[upstream]
	if !known {
		return unavailable{fmt.Errorf("ask %s: no address, expected it among -upstreams", upstream)}
	}
	id := asked.id + "-" + strconv.Itoa(len(found.calls)+1)
	to := &url.URL{Scheme: "http", Host: address, Path: "/" + upstream, RawQuery: "id=" + url.QueryEscape(id) +
		"&region=" + url.QueryEscape(asked.region) + "&endpoint=" + url.QueryEscape(endpoint.Name)}
	reply, err := s.client.Get(ctx, upstream, to, nil)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return unavailable{err}
	}
	found.calls = append(found.calls, call{upstream, calls.Ms(reply.Took)})
	var told said
	if err := json.Unmarshal(reply.Body, &told); err != nil {
		return unavailable{fmt.Errorf("ask %s: %w", upstream, err)}
	}
	switch upstream {
	case "eta":
		found.etaS = told.EtaS
	case "routing":
		found.route = told.Route
	}
	return nil
}

// tell adds what was done as headers: counts to compare twins by, and the calls' times as this service saw them.
func (d *done) tell(headers http.Header) {
	if len(d.iterations) > 0 {
		counted := make([]string, 0, len(d.iterations))
		for kind, iterations := range d.iterations {
			counted = append(counted, kind+"="+strconv.Itoa(iterations))
		}
		slices.Sort(counted)
		headers["X-Work"] = []string{strings.Join(counted, ",")}
	}
	if len(d.calls) > 0 {
		names, times := make([]string, len(d.calls)), make([]string, len(d.calls))
		for at, call := range d.calls {
			names[at] = call.upstream
			times[at] = call.upstream + ";dur=" + strconv.FormatFloat(call.tookMs, 'f', 2, 64)
		}
		headers["X-Calls"] = []string{strings.Join(names, ",")}
		headers["Server-Timing"] = []string{strings.Join(times, ", ")}
	}
}
