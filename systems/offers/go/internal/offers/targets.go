package offers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"greenlane/offers/internal/program"
	"greenlane/offers/internal/settings"
)

// Targets is who prices: a service for all modes, and others for some.
type Targets struct {
	Default string            `json:"default"`
	For     map[string]string `json:"for"`
}

// of a mode.
func (t *Targets) of(mode string) string {
	if url, apart := t.For[mode]; apart {
		return url
	}
	return t.Default
}

// check gives the targets without slashes at their ends, or what is wrong with them.
func (t Targets) check(modes []string) (*Targets, error) {
	found := &Targets{strings.TrimRight(t.Default, "/"), map[string]string{}}
	if !settings.IsService(t.Default) {
		return nil, fmt.Errorf("default=%q, expected http://host:port", t.Default)
	}
	for mode, url := range t.For {
		if !slices.Contains(modes, mode) {
			return nil, fmt.Errorf("for=%q, expected some of %s", mode, strings.Join(modes, ", "))
		}
		if !settings.IsService(url) {
			return nil, fmt.Errorf("for.%s=%q, expected http://host:port", mode, url)
		}
		found.For[mode] = strings.TrimRight(url, "/")
	}
	return found, nil
}

// point is the switch of who prices. A request that has begun keeps what it began with.
type point struct {
	targets atomic.Pointer[Targets]
	modes   []string
}

func (p *point) read(w http.ResponseWriter, _ *http.Request) {
	program.Answer(w, http.StatusOK, p.targets.Load())
}

func (p *point) change(w http.ResponseWriter, r *http.Request) {
	var wanted Targets
	from := json.NewDecoder(io.LimitReader(r.Body, 1<<16))
	from.DisallowUnknownFields()
	err := from.Decode(&wanted)
	var checked *Targets
	if err == nil {
		checked, err = wanted.check(p.modes)
	}
	if err != nil {
		program.Answer(w, http.StatusBadRequest, program.Failure{Error: "switch pricing: " + err.Error()})
		return
	}
	p.targets.Store(checked)
	program.Answer(w, http.StatusOK, checked)
}
