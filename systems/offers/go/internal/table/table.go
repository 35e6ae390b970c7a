// Package table reads the one description that Python and Go share: endpoints, upstreams, regions, modes. What the
// Python side checks (offers/table.py) is not checked twice, except for what this side would trip over.
package table

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/BurntSushi/toml"
)

// Step of an endpoint: computes (Work, CPUMs) or asks an upstream (Call, Times).
type Step struct {
	Work  string
	CPUMs float64 `toml:"cpu_ms"`
	Call  string
	Times int
}

// Endpoint of pricingservice.
type Endpoint struct {
	Name  string
	Path  string
	Kind  string
	Steps []Step
}

// CPUMs is all its CPU at w = 1, in calibrated milliseconds.
func (e Endpoint) CPUMs() float64 {
	sum := 0.0
	for _, step := range e.Steps {
		sum += step.CPUMs
	}
	return sum
}

// Upstream is a service that others ask. Its latency is lognormal and bounded; its own CPU lies inside it.
type Upstream struct {
	Name     string
	Language string
	MedianMs float64 `toml:"median_ms"`
	P99Ms    float64 `toml:"p99_ms"`
	AtMostMs float64 `toml:"at_most_ms"`
	CPUMs    float64 `toml:"cpu_ms"`
}

// Mode is a way to travel that offerservice offers.
type Mode struct {
	Name string
	// Price is the endpoint of pricingservice that prices it; "" = BaseCents and the upstream `rules` do.
	Price     string
	BaseCents int `toml:"base_cents"`
	// Calls are upstreams that offerservice asks itself, all at the same time as the price.
	Calls []string
}

// Table is all of it, in the files' order.
type Table struct {
	Endpoints []Endpoint
	Upstreams []Upstream
	Modes     []Mode
	Regions   []string
}

// Wrong is a table that contradicts itself or cannot be read.
type Wrong struct{ Place, Why string }

func (w Wrong) Error() string { return fmt.Sprintf("read the table: %s: %s", w.Place, w.Why) }

// Read reads the four files of a folder.
func Read(folder string) (Table, error) {
	var found Table
	var file struct {
		Endpoint []Endpoint
		Upstream []Upstream
		Mode     []Mode
		Region   []struct{ Name string }
	}
	for _, name := range []string{"endpoints", "upstreams", "modes", "regions"} {
		path := filepath.Join(folder, name+".toml")
		if _, err := toml.DecodeFile(path, &file); err != nil {
			return found, Wrong{path, err.Error()}
		}
	}
	found = Table{Endpoints: file.Endpoint, Upstreams: file.Upstream, Modes: file.Mode}
	for _, region := range file.Region {
		found.Regions = append(found.Regions, region.Name)
	}
	return found, found.check(folder)
}

// UpstreamNames in the file's order.
func (t Table) UpstreamNames() []string {
	return names(t.Upstreams, func(u Upstream) string { return u.Name })
}

// ModeNames in the file's order.
func (t Table) ModeNames() []string { return names(t.Modes, func(m Mode) string { return m.Name }) }

// Endpoint by name.
func (t Table) Endpoint(name string) (Endpoint, bool) {
	at := slices.IndexFunc(t.Endpoints, func(e Endpoint) bool { return e.Name == name })
	if at < 0 {
		return Endpoint{}, false
	}
	return t.Endpoints[at], true
}

func (t Table) check(folder string) error {
	upstreams := t.UpstreamNames()
	for _, endpoint := range t.Endpoints {
		for at, step := range endpoint.Steps {
			if (step.Work == "") == (step.Call == "") {
				return Wrong{folder, fmt.Sprintf("endpoint %s: step %d, expected either work or call", endpoint.Name, at+1)}
			}
			if step.Call != "" && !slices.Contains(upstreams, step.Call) {
				return Wrong{folder, fmt.Sprintf("endpoint %s: call=%q, expected one of %v", endpoint.Name, step.Call, upstreams)}
			}
		}
	}
	for _, mode := range t.Modes {
		if _, known := t.Endpoint(mode.Price); mode.Price != "" && !known {
			return Wrong{folder, fmt.Sprintf("mode %s: price=%q, expected an endpoint's name", mode.Name, mode.Price)}
		}
		for _, call := range mode.Calls {
			if !slices.Contains(upstreams, call) {
				return Wrong{folder, fmt.Sprintf("mode %s: calls=%q, expected some of %v", mode.Name, call, upstreams)}
			}
		}
	}
	return nil
}

func names[T any](all []T, name func(T) string) []string {
	found := make([]string, len(all))
	for at, one := range all {
		found[at] = name(one)
	}
	return found
}
