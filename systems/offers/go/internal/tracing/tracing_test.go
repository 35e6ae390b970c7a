package tracing_test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collected "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"greenlane/offers/internal/offers"
	"greenlane/offers/internal/pricing"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
	"greenlane/offers/internal/upstream"
	"greenlane/offers/internal/work"
)

// span is one as the collector got it.
type span struct {
	service, name, kind       string
	trace, id, parent         string
	beganNs, endedNs          uint64
	texts                     map[string]string
	numbers                   map[string]float64
	events                    []string
	hasReusedFlag, statusIsOk bool
}

// collector is an OTLP endpoint over HTTP that keeps what it gets.
type collector struct {
	*httptest.Server
	mutex sync.Mutex
	spans []span
	paths []string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var got collected.TracesData
		if err := proto.Unmarshal(body, &got); err != nil || r.Header.Get("content-type") != "application/x-protobuf" {
			t.Errorf("%v, %v", err, r.Header)
		}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.paths = append(c.paths, r.URL.Path)
		c.keep(&got)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) keep(got *collected.TracesData) {
	for _, resource := range got.ResourceSpans {
		service := ""
		for _, one := range resource.Resource.Attributes {
			if one.Key == "service.name" {
				service = one.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, one := range scope.Spans {
				c.spans = append(c.spans, read(service, one))
			}
		}
	}
}

func read(service string, one *collected.Span) span {
	found := span{
		service: service, name: one.Name, kind: strings.TrimPrefix(one.Kind.String(), "SPAN_KIND_"),
		trace: hex.EncodeToString(one.TraceId), id: hex.EncodeToString(one.SpanId), parent: hex.EncodeToString(one.ParentSpanId),
		beganNs: one.StartTimeUnixNano, endedNs: one.EndTimeUnixNano,
		texts: map[string]string{}, numbers: map[string]float64{},
		statusIsOk: one.Status.GetCode() != collected.Status_STATUS_CODE_ERROR,
	}
	for _, attribute := range one.Attributes {
		found.texts[attribute.Key] = attribute.Value.GetStringValue()
		found.numbers[attribute.Key] = attribute.Value.GetDoubleValue() + float64(attribute.Value.GetIntValue())
		found.hasReusedFlag = found.hasReusedFlag || attribute.Key == "offers.reused"
	}
	for _, event := range one.Events {
		found.events = append(found.events, event.Name)
	}
	return found
}

func (c *collector) one(t *testing.T, service, name string) span {
	t.Helper()
	at := slices.IndexFunc(c.spans, func(s span) bool { return s.service == service && s.name == name })
	if at < 0 {
		t.Fatalf("no span %s of %s among %d", name, service, len(c.spans))
	}
	return c.spans[at]
}

// traced is a tracing of a service of its own, as its process would have it.
func traced(t *testing.T, service string) *tracing.Tracing {
	t.Helper()
	found, err := tracing.FromEnvironment(service, testTalk{t})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

type testTalk struct{ *testing.T }

func (t testTalk) Write(text []byte) (int, error) {
	t.Errorf("said: %s", text)
	return len(text), nil
}

func start(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func TestAPollIsOneTraceThroughAllServices(t *testing.T) {
	all := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", all.URL+"/")
	described := table.Table{
		// So slow that the caller has noted its request as written before the first byte comes, also on a busy machine.
		Upstreams: []table.Upstream{{Name: "eta", MedianMs: 300, P99Ms: 300, AtMostMs: 300}},
		Endpoints: []table.Endpoint{{Name: "bikes_price", Path: "/v1/bikes/price", Kind: "offer", Steps: []table.Step{{Call: "eta"}}}},
		Modes:     []table.Mode{{Name: "bikes", Price: "bikes_price"}, {Name: "walk", Calls: []string{"sky"}}},
		Regions:   []string{"north"},
	}
	traces := []*tracing.Tracing{traced(t, "upstream-go"), traced(t, "pricing"), traced(t, "offerservice")}
	asked := start(t, upstream.New(described.Upstreams, work.Rates{"burn": 1}, traces[0]).Handler())
	upstreams := map[string]string{"eta": strings.TrimPrefix(asked, "http://")}
	prices := start(t, pricing.New(upstreams, work.Rates{}, traces[1], 0).Handler(described.Endpoints))
	plan := offers.Plan{Cap: 20e9, Upstreams: upstreams, Targets: &offers.Targets{Default: prices}}
	url := start(t, offers.New(described, plan, traces[2]).Handler())

	request, _ := http.NewRequest(http.MethodGet, url+"/offers?region=north&id=r1", nil)
	request.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	for _, one := range traces {
		one.Close()
	}

	if slices.ContainsFunc(all.paths, func(path string) bool { return path != "/v1/traces" }) {
		t.Errorf("%v", all.paths)
	}
	poll := all.one(t, "offerservice", "GET /offers")
	mode := all.one(t, "offerservice", "offer bikes")
	call := all.one(t, "offerservice", "GET /v1/bikes/price")
	served := all.one(t, "pricing", "GET /v1/bikes/price")
	below := all.one(t, "pricing", "GET /eta")
	last := all.one(t, "upstream-go", "GET /eta")
	chain := []span{poll, mode, call, served, below, last}
	for at, one := range chain {
		parent := "b7ad6b7169203331"
		if at > 0 {
			parent = chain[at-1].id
		}
		if one.parent != parent || one.trace != "0af7651916cd43dd8448eb211c80319c" || !one.statusIsOk {
			t.Errorf("%s of %s: %+v, expected parent %s", one.name, one.service, one, parent)
		}
	}
	for at, kind := range []string{"SERVER", "INTERNAL", "CLIENT", "SERVER", "CLIENT", "SERVER"} {
		if chain[at].kind != kind {
			t.Errorf("%s of %s is %s, expected %s", chain[at].name, chain[at].service, chain[at].kind, kind)
		}
	}
	// The upstream's own clock, in its span and as its caller was told, lies within the call; so does the time on the wire.
	own, told, wire := last.numbers["offers.upstream_ms"], below.numbers["offers.upstream_ms"], below.numbers["offers.wire_ms"]
	if whole := float64(below.endedNs-below.beganNs) / 1e6; own < 300 || told != own || whole < own || wire <= 0 || whole < wire {
		t.Errorf("own %v, told %v, wire %v, whole %v", own, told, wire, whole)
	}
	if !slices.Equal(below.events, []string{"got connection", "wrote request", "first byte"}) || !below.hasReusedFlag {
		t.Errorf("%+v", below)
	}
	if below.texts["offers.upstream"] != "eta" || below.texts["url.path"] != "/eta" || below.numbers["server.port"] == 0 ||
		below.numbers["http.response.status_code"] != 200 || served.texts["http.route"] != "/v1/bikes/price" {
		t.Errorf("%+v", below)
	}
	if mode.texts["offers.outcome"] != "made" || mode.texts["offers.mode"] != "bikes" {
		t.Errorf("%+v", mode)
	}
	if walk := all.one(t, "offerservice", "offer walk"); walk.texts["offers.outcome"] != "failed" {
		t.Errorf("%+v", walk)
	}
}

func TestOffNothingIsWrappedAndNoHeaderSent(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	off, err := tracing.FromEnvironment("pricing", io.Discard)
	if err != nil || off.On {
		t.Fatalf("%+v %v", off, err)
	}
	mux := http.NewServeMux()
	if off.Served("/eta", mux) != http.Handler(mux) {
		t.Error("the handler is wrapped")
	}
	headers := http.Header{}
	if off.Sent(context.Background(), headers); len(headers) > 0 {
		t.Errorf("%v", headers)
	}
	off.Close()
}

func TestWhereTracesGoMustBeAnAddress(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
	_, err := tracing.FromEnvironment("pricing", io.Discard)
	if err == nil || !strings.Contains(err.Error(), `start pricing: OTEL_EXPORTER_OTLP_ENDPOINT="collector:4318", expected http://host:port`) {
		t.Error(err)
	}
}

func TestACollectorThatRefusesIsSaidAndNothingElseHappens(t *testing.T) {
	url := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }))
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url+"/elsewhere")
	var talk strings.Builder
	refused, err := tracing.FromEnvironment("pricing", &talk)
	if err != nil {
		t.Fatal(err)
	}
	_, one := refused.Span(context.Background(), "a", 0)
	one.End()
	refused.Close()
	if !strings.Contains(talk.String(), url+"/elsewhere: status=400, expected 2xx") {
		t.Errorf("%q", talk.String())
	}
}
