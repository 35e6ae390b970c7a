package offers

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"greenlane/offers/internal/pricing"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
	"greenlane/offers/internal/upstream"
	"greenlane/offers/internal/work"
)

var rates = work.Rates{"burn": 10, "geometry": 20, "json": 30, "regex": 40, "sort": 50, "template": 60}

// site is upstreams, a pricing service and offerservice in front of them, all real, with latencies of our choice: eta and
// routing answer offerservice at once; what bikes are priced with takes slowMs, what scooters are priced with no time.
func site(t *testing.T, slowMs float64, plan Plan) (string, *httptest.Server) {
	t.Helper()
	described := table.Table{
		Upstreams: []table.Upstream{law("eta", 1), law("routing", 1), law("rules", slowMs)},
		Endpoints: []table.Endpoint{
			{Name: "bikes_price", Path: "/v1/bikes/price", Kind: "offer", Steps: []table.Step{{Call: "eta"}, {Call: "rules"}}},
			{Name: "scooters_price", Path: "/v1/scooters/price", Kind: "offer", Steps: []table.Step{{Call: "eta"}}},
		},
		Modes: []table.Mode{
			{Name: "bikes", Price: "bikes_price", Calls: []string{"eta", "routing"}},
			{Name: "scooters", Price: "scooters_price", Calls: []string{"eta"}},
			{Name: "walk", Calls: []string{"routing"}},
			{Name: "shared", BaseCents: 700, Calls: []string{"eta", "routing"}},
		},
		Regions: []string{"north", "hills"},
	}
	asked := start(t, upstream.New(described.Upstreams, rates, tracing.Off()).Handler())
	address := strings.TrimPrefix(asked.URL, "http://")
	plan.Upstreams = map[string]string{"eta": address, "routing": address, "rules": address}
	prices := start(t, pricing.New(plan.Upstreams, rates, tracing.Off(), 0).Handler(described.Endpoints))
	if plan.Targets == nil {
		plan.Targets = &Targets{Default: prices.URL}
	}
	return start(t, New(described, plan, tracing.Off()).Handler()).URL, prices
}

func law(name string, ms float64) table.Upstream {
	return table.Upstream{Name: name, MedianMs: ms, P99Ms: ms, AtMostMs: ms}
}

func start(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func poll(t *testing.T, url string) Made {
	t.Helper()
	var found Made
	get(t, url+"/offers?region=hills&id=r1", &found)
	return found
}

func get(t *testing.T, url string, into any) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil || answer.StatusCode != 200 {
		t.Fatalf("%s: %d %v", url, answer.StatusCode, err)
	}
}

func row(t *testing.T, url, mode string) Row {
	t.Helper()
	var found struct{ Modes []Row }
	get(t, url+"/counts", &found)
	at := slices.IndexFunc(found.Modes, func(r Row) bool { return r.Mode == mode && r.Region == "hills" })
	return found.Modes[at]
}

// eventually asks again until it holds; a busy machine takes its time.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatal("never: " + what)
}

func modes(found Made) (made, missing []string) {
	for _, one := range found.Offers {
		made = append(made, one.Mode)
	}
	for _, one := range found.Missing {
		missing = append(missing, one.Mode+" "+one.Why)
	}
	return made, missing
}

func TestEveryModeIsOfferedWithPriceEtaAndRoute(t *testing.T) {
	t.Parallel()
	url, _ := site(t, 1, Plan{Cap: 20 * time.Second})
	found := poll(t, url)
	if made, missing := modes(found); !slices.Equal(made, []string{"bikes", "scooters", "walk", "shared"}) || missing != nil {
		t.Fatalf("%v %v", made, missing)
	}
	for _, one := range found.Offers {
		if (one.PriceCents == 0) != (one.Mode == "walk") || one.EtaS < 60 || one.Ms <= 0 {
			t.Errorf("%+v", one)
		}
	}
	// Prices are pricingservice's: its draw for this id.
	if bikes := found.Offers[0]; bikes.PriceCents != 100+14352027838622695094%900 || !strings.HasPrefix(string(bikes.Route), "[[45") {
		t.Errorf("%+v", bikes)
	}
	bikes := row(t, url, "bikes")
	if bikes.Asked != 1 || bikes.Made != 1 || bikes.Wasted != 0 || !bikes.Priced || len(bikes.Buckets) != 1 || bikes.Buckets[0][1] != 1 {
		t.Errorf("%+v", bikes)
	}
	if shared := row(t, url, "shared"); shared.Priced || len(shared.Buckets) != 0 || shared.Made != 1 {
		t.Errorf("%+v", shared)
	}
}

func TestALateOfferIsLeftOutAndItsReplyIsReadAndCounted(t *testing.T) {
	t.Parallel()
	url, _ := site(t, 3000, Plan{Cap: 2 * time.Second})
	if made, missing := modes(poll(t, url)); !slices.Equal(missing, []string{"bikes late"}) || len(made) != 3 {
		t.Fatalf("%v %v", made, missing)
	}
	eventually(t, "the late reply is wasted", func() bool { return row(t, url, "bikes").Wasted == 1 })
	bikes := row(t, url, "bikes")
	if bikes.Late != 1 || bikes.Cancelled != 0 || bikes.WastedMs < 3000 || bikes.Buckets[0][0] < 3000 {
		t.Errorf("%+v", bikes)
	}
}

func TestCancellingEndsALateCallAtTheCap(t *testing.T) {
	t.Parallel()
	url, _ := site(t, 15_000, Plan{Cap: 300 * time.Millisecond, Cancel: true})
	if _, missing := modes(poll(t, url)); !slices.Contains(missing, "bikes late") {
		t.Fatalf("%v", missing)
	}
	eventually(t, "the call is given up", func() bool { return row(t, url, "bikes").Cancelled == 1 })
	if bikes := row(t, url, "bikes"); bikes.Late != 1 || bikes.Wasted != 1 || bikes.WastedMs <= 0 || bikes.WastedMs > 14_000 {
		t.Errorf("%+v", bikes)
	}
}

func TestTheDeadlineIsPropagatedWhenAsked(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 20)
	spy := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get(deadlineHeader)
		w.Write([]byte(`{"price_cents":150,"eta_s":60,"route":[]}`))
	}))
	for _, propagate := range []bool{false, true} {
		url, _ := site(t, 1, Plan{Cap: 20 * time.Second, Propagate: propagate, Targets: &Targets{Default: spy.URL}})
		poll(t, url)
		if told := <-seen; (told != "") != propagate || len(told) > len("20000") {
			t.Errorf("propagate %v: %q", propagate, told)
		}
		<-seen // the scooters'
	}
	// pricingservice gives up by itself then: its CPU is not spent on what nobody waits for.
	url, _ := site(t, 15_000, Plan{Cap: 300 * time.Millisecond, Propagate: true})
	poll(t, url)
	eventually(t, "pricingservice gives up", func() bool { return row(t, url, "bikes").Wasted == 1 })
	if bikes := row(t, url, "bikes"); bikes.WastedMs > 14_000 || bikes.Late != 1 || len(bikes.Buckets) != 1 {
		t.Errorf("%+v", bikes)
	}
}

func TestARefusalAndAFailureAreToldApart(t *testing.T) {
	t.Parallel()
	refusing := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	broken := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	url, _ := site(t, 1, Plan{Cap: 20 * time.Second, Targets: &Targets{refusing.URL, map[string]string{"scooters": broken.URL}}})
	if _, missing := modes(poll(t, url)); !slices.Equal(missing, []string{"bikes refused", "scooters failed"}) {
		t.Errorf("%v", missing)
	}
	if bikes := row(t, url, "bikes"); bikes.Refused != 1 || bikes.Wasted != 0 || len(bikes.Buckets) != 0 {
		t.Errorf("%+v", bikes)
	}
}

func TestWhoPricesIsSwitchedBetweenTwoRequests(t *testing.T) {
	t.Parallel()
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	url, prices := site(t, 1, Plan{Cap: 20 * time.Second, Targets: &Targets{Default: nobody.URL}})
	if _, missing := modes(poll(t, url)); !slices.Equal(missing, []string{"bikes failed", "scooters failed"}) {
		t.Fatalf("%v", missing)
	}
	post := func(body string) (int, string) {
		answer, err := http.Post(url+"/pricing", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		said, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(said)
	}
	if status, said := post(`{"default":"` + nobody.URL + `","for":{"bikes":"` + prices.URL + `/"}}`); status != 200 {
		t.Fatal(status, said)
	}
	if _, missing := modes(poll(t, url)); !slices.Equal(missing, []string{"scooters failed"}) {
		t.Errorf("%v", missing)
	}
	for body, says := range map[string]string{
		`{"default":"ftp://a:1"}`:                                     "expected http://host:port",
		`{"default":"http://a:1","for":{"sky":"http://a:1"}}`:         "expected some of bikes, scooters, walk, shared",
		`{"default":"http://a:1","for":{"bikes":"a"}}`:                `for.bikes=\"a\"`,
		`{"default":"http://a:1","others":{"bikes":"http://a:1"}}`:    "others",
		`{"default":"http://a:1","for":{"bikes":"http://a:1/where"}}`: "expected http://host:port",
	} {
		if status, said := post(body); status != 400 || !strings.Contains(said, says) {
			t.Errorf("%s: %d %s, expected %s", body, status, said, says)
		}
	}
	var now Targets
	if get(t, url+"/pricing", &now); now.For["bikes"] != prices.URL {
		t.Errorf("%+v", now)
	}
}

func TestARegionThatIsNotInTheTableIsRefused(t *testing.T) {
	t.Parallel()
	url, _ := site(t, 1, Plan{Cap: 20 * time.Second})
	answer, err := http.Get(url + "/offers?region=moon")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != 400 || !strings.Contains(string(said), "expected one of north, hills") {
		t.Errorf("%d %s", answer.StatusCode, said)
	}
}

func TestTheCommandSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		says      string
		arguments []string
	}{
		{`-cap="1h", expected a time from 1ms to 1m0s`, []string{"-cap", "1h"}},
		{`-pricing="a", expected http://host:port`, []string{"-pricing", "a"}},
		{`-pricing-for="bike=http://a:1", expected modes=http://host:port`, []string{"-pricing-for", "bike=http://a:1"}},
		{`-upstreams="eta", expected name=host:port`, []string{"-upstreams", "eta"}},
		{`-table="/nowhere", expected the folder`, []string{"-table", "/nowhere"}},
		{`-listen="x", expected host:port`, []string{"-listen", "x"}},
	} {
		err := Command(context.Background(), append([]string{"-table", "../../../table"}, one.arguments...), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%v, expected %s", err, one.says)
		}
	}
}
