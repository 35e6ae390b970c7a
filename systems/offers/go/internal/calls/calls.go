// Package calls asks other services over kept connections: one pool for all, a span and wire times for each call.
package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"greenlane/offers/internal/tracing"
)

// Patience is how long an answer is waited for: far beyond any upstream's latency law, so that a starved service is seen
// as slow and not as failing.
const Patience = 20 * time.Second

const (
	// Nobody waits for a connection; what is idle is kept, up to so many for each host.
	kept = 512
	// Longer than load has pauses, shorter than servers keep theirs (gunicorn as started here: 75 s).
	idle = 60 * time.Second
	// The longest reply that is read.
	mostBytes = 1 << 20
)

// Reply of a service.
type Reply struct {
	Status int
	Body   []byte
	// Took is what the caller saw: from before a connection was looked for to the last byte.
	Took time.Duration
}

// Status is an answer that is not 200.
type Status struct {
	Whom string
	Code int
	Took time.Duration
}

func (s Status) Error() string { return fmt.Sprintf("ask %s: status=%d, expected 200", s.Whom, s.Code) }

// Client asks services. Safe for use by many goroutines.
type Client struct {
	client  http.Client
	tracing *tracing.Tracing
}

// NewClient is a client with a pool of its own.
func NewClient(tracing *tracing.Tracing) *Client {
	dialer := net.Dialer{Timeout: 2 * time.Second, KeepAlive: 30 * time.Second}
	return &Client{tracing: tracing, client: http.Client{
		Timeout: Patience,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, MaxIdleConnsPerHost: kept, IdleConnTimeout: idle, DisableCompression: true,
		},
	}}
}

// Get asks `whom` (a name for spans and errors) at http://host:port/path?query. Every error but a Status means that
// nothing was answered.
func (c *Client) Get(ctx context.Context, whom string, address *url.URL, headers http.Header) (Reply, error) {
	began := time.Now()
	if !c.tracing.On {
		return c.get(ctx, whom, address, headers, began)
	}
	port, _ := strconv.Atoi(address.Port())
	ctx, span := c.tracing.Span(ctx, "GET "+address.Path, trace.SpanKindClient,
		attribute.String("offers.upstream", whom), attribute.String("http.request.method", http.MethodGet),
		attribute.String("url.path", address.Path), attribute.String("url.full", address.String()),
		attribute.String("server.address", address.Hostname()), attribute.Int("server.port", port))
	defer span.End()
	wire := &wireTimes{span: span}
	if headers == nil {
		headers = http.Header{}
	}
	c.tracing.Sent(ctx, headers)
	reply, err := c.get(httptrace.WithClientTrace(ctx, wire.trace()), whom, address, headers, began)
	wire.end(err)
	return reply, err
}

func (c *Client) get(ctx context.Context, whom string, address *url.URL, headers http.Header, began time.Time) (Reply, error) {
	request := &http.Request{Method: http.MethodGet, URL: address, Host: address.Host, Header: headers}
	answer, err := c.client.Do(request.WithContext(ctx))
	if err != nil {
		return Reply{Took: time.Since(began)}, fmt.Errorf("ask %s: %w", whom, err)
	}
	defer answer.Body.Close()
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		tellAnswer(span, answer)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostBytes))
	reply := Reply{answer.StatusCode, body, time.Since(began)}
	if err != nil {
		return reply, fmt.Errorf("ask %s: %w", whom, err)
	}
	if answer.StatusCode != http.StatusOK {
		return reply, Status{whom, answer.StatusCode, reply.Took}
	}
	return reply, nil
}

func tellAnswer(span trace.Span, answer *http.Response) {
	span.SetAttributes(attribute.Int("http.response.status_code", answer.StatusCode))
	if own, err := strconv.ParseFloat(answer.Header.Get("x-upstream-ms"), 64); err == nil {
		span.SetAttributes(attribute.Float64("offers.upstream_ms", own))
	}
}

// wireTimes notes when a request was on the wire. Its callbacks run on goroutines of the transport's, some of them
// perhaps when the call is over.
type wireTimes struct {
	span trace.Span
	// Nanoseconds since 1970; 0 = not yet.
	written atomic.Int64
}

func (w *wireTimes) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			w.span.AddEvent("got connection")
			w.span.SetAttributes(attribute.Bool("offers.reused", got.Reused))
		},
		WroteRequest: func(httptrace.WroteRequestInfo) {
			now := time.Now()
			w.written.Store(now.UnixNano())
			w.span.AddEvent("wrote request", trace.WithTimestamp(now))
		},
		GotFirstResponseByte: func() {
			now := time.Now()
			w.span.AddEvent("first byte", trace.WithTimestamp(now))
			if written := w.written.Load(); written != 0 {
				w.span.SetAttributes(attribute.Float64("offers.wire_ms", Ms(time.Duration(now.UnixNano()-written))))
			}
		},
	}
}

func (w *wireTimes) end(err error) {
	var answered Status
	switch {
	case err == nil || errors.As(err, &answered) && answered.Code < http.StatusInternalServerError:
	default:
		w.span.SetStatus(codes.Error, err.Error())
	}
}

// Ms is a duration in milliseconds.
func Ms(took time.Duration) float64 { return float64(took) / float64(time.Millisecond) }
