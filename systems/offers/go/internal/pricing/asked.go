package pricing

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// mostW is the largest factor that is believed.
const mostW = 100.0

// DeadlineHeader brings how long the caller still waits, in milliseconds, as Envoy sends it.
const DeadlineHeader = "X-Envoy-Expected-Rq-Timeout-Ms"

// asked is what a request says: ?region=hills&id=r17&w=1.37.
type asked struct {
	region string
	// id names everything drawn for it: upstreams' latencies, the reply.
	id string
	// w multiplies all CPU of the request.
	w float64
}

// read gives the request. Without an id it is named after endpoint and w, all that a load generator varies.
func read(endpoint string, query url.Values) (asked, error) {
	text := "1"
	if given, has := query["w"]; has {
		text = given[0]
	}
	w, err := strconv.ParseFloat(text, 64)
	if err != nil || !(w > 0) || w > mostW {
		return asked{}, fmt.Errorf("price: w=%q, expected a number above 0, at most %g", text, mostW)
	}
	id := query.Get("id")
	if id == "" {
		id = endpoint + "-" + text
	}
	return asked{query.Get("region"), id, w}, nil
}

// until is the request's context, ended as well when its caller stops waiting: by the connection, or by what it said
// beforehand.
func until(r *http.Request) (context.Context, context.CancelFunc) {
	ms, err := strconv.ParseFloat(r.Header.Get(DeadlineHeader), 64)
	if err != nil || !(ms > 0) || ms > math.MaxInt32 {
		return context.WithCancel(r.Context())
	}
	return context.WithTimeout(r.Context(), time.Duration(ms*float64(time.Millisecond)))
}
