package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"greenlane/offers/internal/drawn"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
	"greenlane/offers/internal/work"
)

var quick = []table.Upstream{
	{Name: "eta", MedianMs: 4, P99Ms: 8, AtMostMs: 9, CPUMs: 0.01},
	{Name: "routing", MedianMs: 3, P99Ms: 5, AtMostMs: 6},
}

func serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(New(quick, work.Rates{"burn": 1000}, tracing.Off()).Handler())
	t.Cleanup(server.Close)
	return server.URL
}

func get(t *testing.T, url string) (http.Header, string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%s: %d %s %v", url, answer.StatusCode, body, err)
	}
	return answer.Header, string(body)
}

func TestItsOwnClockSaysTheLawsTimeAtLeast(t *testing.T) {
	url := serve(t)
	headers, body := get(t, url+"/eta?id=r1-bikes-1&region=north&endpoint=bikes_price")
	own, err := strconv.ParseFloat(headers.Get("x-upstream-ms"), 64)
	// Later than the law when the machine is busy, never earlier.
	if law := drawn.Lognormal("eta", "r1-bikes-1", 4, 8, 9); err != nil || own < law {
		t.Errorf("x-upstream-ms %v, expected %v at least (%v)", own, law, err)
	}
	if headers.Get("server-timing") != "total;dur="+headers.Get("x-upstream-ms") {
		t.Errorf("server-timing %q", headers.Get("server-timing"))
	}
	// As offers/upstreams/server.py has it.
	if body != `{"eta_s":64}` {
		t.Errorf("%s", body)
	}
}

func TestRepliesArePythons(t *testing.T) {
	for name, expected := range map[string]string{
		"zones": `{"zone":4}`, "rules": `{"factor_percent":122}`,
		"routing": `{"metres":6373,"route":[[45730600,4813000],[45707600,4809600],[45744600,4846600],[45745000,4848600],` +
			`[45748600,4845000],[45746600,4844600],[45709600,4807600],[45713000,4830600]]}`,
	} {
		if found, err := json.Marshal(reply(name, "r1-bikes-1")); err != nil || string(found) != expected {
			t.Errorf("%s: %s, expected %s (%v)", name, found, expected, err)
		}
	}
}

func TestCallsAreCountedByWhomTheyAreFor(t *testing.T) {
	url := serve(t)
	for _, endpoint := range []string{"bikes_price", "offerservice", "bikes_price"} {
		get(t, url+"/routing?id=a&endpoint="+endpoint)
	}
	if _, body := get(t, url+"/counts"); body != `{"calls":{"bikes_price":2,"offerservice":1}}` {
		t.Error(body)
	}
	if _, body := get(t, url+"/healthz"); body != "ok" {
		t.Error(body)
	}
}

func TestTheCommandServesUntilItIsEnded(t *testing.T) {
	t.Setenv("OFFERS_ITERATIONS", `{"burn":1000,"geometry":1,"json":1,"regex":1,"sort":1,"template":1}`)
	ctx, end := context.WithCancel(context.Background())
	talk, said := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Command(ctx, []string{"-listen", "127.0.0.1:0", "-table", "../../../table", "-names", "eta"}, io.Discard, said)
		said.Close()
	}()
	line := make([]byte, 200)
	n, err := talk.Read(line)
	if err != nil {
		t.Fatal(err, <-done)
	}
	url := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "listening on "))
	get(t, url+"/ready")
	end()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it goes on")
	}
}

func TestTheCommandRefusesNamesThatTheTableHasNot(t *testing.T) {
	var said bytes.Buffer
	err := Command(context.Background(), []string{"-table", "../../../table", "-names", "sky"}, &said, &said)
	if err == nil || !strings.Contains(err.Error(), `start upstream: -names="sky", expected some of eta`) {
		t.Error(err)
	}
}
