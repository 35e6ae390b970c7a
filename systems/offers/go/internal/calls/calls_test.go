package calls

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"greenlane/offers/internal/tracing"
)

func TestConnectionsAreKept(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client, to := NewClient(tracing.Off()), address(t, server.URL)
	for range 3 {
		var all sync.WaitGroup
		for range 20 {
			all.Add(1)
			go func() {
				defer all.Done()
				if _, err := client.Get(context.Background(), "eta", to, nil); err != nil {
					t.Error(err)
				}
			}()
		}
		all.Wait()
	}
	// 60 calls, 20 at a time; a call may begin while another's connection is on its way back.
	if count := opened.Load(); count > 40 {
		t.Errorf("%d connections for 60 calls", count)
	}
	before := opened.Load()
	for range 20 {
		if _, err := client.Get(context.Background(), "eta", to, nil); err != nil {
			t.Error(err)
		}
	}
	if more := opened.Load() - before; more > 1 {
		t.Errorf("%d more connections for 20 calls in turn", more)
	}
}

func TestWhatIsNot200IsAStatus(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := NewClient(tracing.Off()).Get(context.Background(), "eta", address(t, server.URL), nil)
	var status Status
	if !errors.As(err, &status) || status.Code != 404 || status.Took <= 0 || err.Error() != "ask eta: status=404, expected 200" {
		t.Errorf("%v", err)
	}
}

func TestNobodyThereIsNoStatus(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := NewClient(tracing.Off()).Get(context.Background(), "eta", address(t, server.URL), nil)
	var status Status
	if err == nil || errors.As(err, &status) {
		t.Errorf("%v", err)
	}
}

func address(t *testing.T, text string) *url.URL {
	t.Helper()
	found, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
