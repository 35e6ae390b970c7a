package pricing

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
	"greenlane/offers/internal/upstream"
	"greenlane/offers/internal/work"
)

var (
	rates  = work.Rates{"burn": 10, "geometry": 20, "json": 30, "regex": 40, "sort": 50, "template": 60}
	quick  = []table.Upstream{{Name: "eta", MedianMs: 1, P99Ms: 1, AtMostMs: 1}, {Name: "routing", MedianMs: 1, P99Ms: 1, AtMostMs: 1}}
	priced = table.Endpoint{Name: "bikes_price", Path: "/v1/bikes/price", Kind: "offer", Steps: []table.Step{
		{Work: "json", CPUMs: 0.5}, {Call: "eta", Times: 2}, {Work: "geometry", CPUMs: 0.25}, {Call: "routing"}, {Work: "json", CPUMs: 0.1},
	}}
	report = table.Endpoint{Name: "report", Path: "/v1/report", Kind: "heavy", Steps: []table.Step{{Work: "sort", CPUMs: 100}}}
	lost   = table.Endpoint{Name: "lost", Path: "/v1/lost", Kind: "light", Steps: []table.Step{{Call: "sky"}}}
	all    = []table.Endpoint{priced, report, lost}
)

func serve(t *testing.T, upstreams []table.Upstream, heavyAtOnce int) string {
	t.Helper()
	asked := httptest.NewServer(upstream.New(upstreams, rates, tracing.Off()).Handler())
	t.Cleanup(asked.Close)
	address := strings.TrimPrefix(asked.URL, "http://")
	server := httptest.NewServer(New(map[string]string{"eta": address, "routing": address}, rates, tracing.Off(), heavyAtOnce).Handler(all))
	t.Cleanup(server.Close)
	return server.URL
}

func get(t *testing.T, url string, headers ...string) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(headers); at += 2 {
		request.Header.Set(headers[at], headers[at+1])
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(body)
}

func TestAnOfferDoesItsStepsAndTellsThem(t *testing.T) {
	status, headers, body := get(t, serve(t, quick, 0)+"/v1/bikes/price?id=r1-bikes&region=north&w=2")
	if status != 200 || headers.Get("x-work") != "geometry=10,json=36" || headers.Get("x-calls") != "eta,eta,routing" {
		t.Errorf("%d %v", status, headers)
	}
	if timing := headers.Get("server-timing"); strings.Count(timing, ";dur=") != 3 || !strings.HasPrefix(timing, "eta;dur=") {
		t.Errorf("server-timing %q", timing)
	}
	var found offer
	if err := json.Unmarshal([]byte(body), &found); err != nil || found.PriceCents != 100+14352027838622695094%900 ||
		found.EtaS < 60 || !strings.HasPrefix(string(found.Route), "[[45") {
		t.Errorf("%s (%v)", body, err)
	}
}

func TestOthersReplyTheirNameIdAndAValue(t *testing.T) {
	url := serve(t, quick, 0)
	_, headers, body := get(t, url+"/v1/report?w=0.010")
	if !strings.HasPrefix(body, `{"endpoint":"report","id":"report-0.010","value":`) || headers.Get("x-work") != "sort=50" {
		t.Errorf("%s %v", body, headers)
	}
	// All CPU of a request together: 5 s, shared out.
	long := table.Endpoint{Name: "long", Steps: []table.Step{{Work: "burn", CPUMs: 9e6}, {Work: "sort", CPUMs: 1e6}}}
	found, err := New(nil, rates, tracing.Off(), 0).run(context.Background(), &long, asked{w: 50})
	if err != nil || found.iterations["burn"] != 45_000 || found.iterations["sort"] != 25_000 {
		t.Errorf("%+v %v", found, err)
	}
}

func TestWhatCannotBeDoneIsAnsweredWithTheReason(t *testing.T) {
	url := serve(t, quick, 0)
	for _, w := range []string{"0", "-1", "nan", "inf", "101", "x", ""} {
		if status, _, body := get(t, url+"/v1/report?w="+w); status != 400 || !strings.Contains(body, "expected a number above 0, at most 100") {
			t.Errorf("w=%s: %d %s", w, status, body)
		}
	}
	if status, _, body := get(t, url+"/v1/lost"); status != 502 || !strings.Contains(body, "ask sky: no address") {
		t.Errorf("%d %s", status, body)
	}
	// Upstreams that are there and have no such name.
	if status, _, body := get(t, serve(t, quick[:1], 0)+"/v1/bikes/price"); status != 502 || !strings.Contains(body, "ask routing: status=404") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := get(t, url+"/v1/unknown"); status != 404 {
		t.Errorf("%d", status)
	}
}

func TestACallersDeadlineEndsARequest(t *testing.T) {
	slow := []table.Upstream{{Name: "eta", MedianMs: 19_000, P99Ms: 19_000, AtMostMs: 19_000}}
	status, _, _ := get(t, serve(t, slow, 0)+"/v1/bikes/price", DeadlineHeader, "30")
	if status != 504 {
		t.Errorf("%d", status)
	}
}

func TestALimitOfHeavyWorkLetsAllOfItThroughInTurn(t *testing.T) {
	url := serve(t, quick, 1)
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			if answer, err := http.Get(url + "/v1/report?w=0.01"); err != nil || answer.StatusCode != 200 {
				t.Errorf("%v %v", answer, err)
			} else {
				answer.Body.Close()
			}
		}()
	}
	all.Wait()
}

func TestAHeavyRequestWaitsForItsTurnAndALightOneDoesNot(t *testing.T) {
	service := New(nil, rates, tracing.Off(), 1)
	light := table.Endpoint{Name: "light", Kind: "light", Steps: []table.Step{{Work: "sort", CPUMs: 0.1}}}
	// Somebody computes.
	service.turns <- struct{}{}
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := service.run(soon, &report, asked{w: 0.01}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("heavy: %v, expected to wait", err)
	}
	if found, err := service.run(context.Background(), &light, asked{w: 1}); err != nil || found.iterations["sort"] == 0 {
		t.Errorf("light: %+v %v", found, err)
	}
	<-service.turns
	if found, err := service.run(context.Background(), &report, asked{w: 0.01}); err != nil || found.iterations["sort"] == 0 {
		t.Errorf("heavy in its turn: %+v %v", found, err)
	}
	if len(service.turns) != 0 {
		t.Error("the turn was kept")
	}
}

func TestTheCommandSaysWhatIsWrong(t *testing.T) {
	t.Setenv("OFFERS_ITERATIONS", "")
	for _, one := range []struct {
		says      string
		arguments []string
	}{
		{`-procs="0", expected a whole number`, []string{"-procs", "0"}},
		{`-gogc="off", expected a number while -memory-mb is 0`, []string{"-gogc", "off"}},
		{`-table="/nowhere", expected the folder`, []string{"-table", "/nowhere"}},
		{`-heavy-at-once="x", expected a whole number`, []string{"-table", "../../../table", "-heavy-at-once", "x"}},
		{`-upstreams="sky=a:1", expected some of eta`, []string{"-table", "../../../table", "-upstreams", "sky=a:1"}},
	} {
		err := Command(context.Background(), one.arguments, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%v, expected %s", err, one.says)
		}
	}
}

func BenchmarkOfferWithoutWork(b *testing.B) {
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"eta_s":60}`)) }))
	defer answers.Close()
	address := strings.TrimPrefix(answers.URL, "http://")
	service := New(map[string]string{"eta": address, "routing": address}, rates, tracing.Off(), 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := service.run(context.Background(), &priced, asked{"north", "r1", 0.001}); err != nil {
			b.Fatal(err)
		}
	}
}
