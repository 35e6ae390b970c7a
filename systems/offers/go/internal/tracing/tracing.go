// Package tracing sends what a service did to an OpenTelemetry collector: OTLP over HTTP, W3C trace context, on when
// OTEL_EXPORTER_OTLP_ENDPOINT (or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) is set. Off, it costs nothing: no span is made and
// no handler wrapped. OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER and OTEL_BSP_* are the SDK's own.
package tracing

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"greenlane/offers/internal/settings"
)

// flushed is how long the last spans may take to be sent when a service ends.
const flushed = 800 * time.Millisecond

var carrier = propagation.TraceContext{}

// Tracing of one service.
type Tracing struct {
	// On is whether spans are made.
	On       bool
	tracer   trace.Tracer
	provider *sdk.TracerProvider
}

// Off makes no spans.
func Off() *Tracing { return &Tracing{tracer: noop.NewTracerProvider().Tracer("")} }

// FromEnvironment starts what the environment asks for. What goes wrong later, while sending, is said on talk.
func FromEnvironment(service string, talk io.Writer) (*Tracing, error) {
	to, name := endpoint()
	if to == "" || os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return Off(), nil
	}
	poster, err := newPoster(to)
	if err != nil {
		return nil, settings.Wrong{
			Doing: "start " + service, Name: name, Value: to, Rule: "http://host:port", Hint: "unset it to send no traces",
		}
	}
	exporter := otlptrace.NewUnstarted(poster)
	ctx := context.Background()
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service)),
		resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithProcessPID())
	if err != nil {
		return nil, fmt.Errorf("start tracing: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { fmt.Fprintln(talk, "traces:", err) }))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return &Tracing{On: true, tracer: provider.Tracer("greenlane/offers"), provider: provider}, nil
}

// Close sends what has not been sent yet.
func (t *Tracing) Close() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushed)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// Span begins a span of any kind below the one in ctx.
func (t *Tracing) Span(ctx context.Context, name string, kind trace.SpanKind, with ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(with...))
}

// Sent adds the span in ctx to the headers of a request.
func (t *Tracing) Sent(ctx context.Context, headers http.Header) {
	if t.On {
		carrier.Inject(ctx, propagation.HeaderCarrier(headers))
	}
}

// Served is a handler with a SERVER span around it, named after its route: "GET /v1/bikes/price". Off, it is the handler.
func (t *Tracing) Served(route string, handler http.Handler) http.Handler {
	if !t.On {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := carrier.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.Span(ctx, r.Method+" "+route, trace.SpanKindServer,
			attribute.String("http.route", route), attribute.String("http.request.method", r.Method),
			attribute.String("url.path", r.URL.Path), attribute.String("url.query", r.URL.RawQuery))
		defer span.End()
		seen := &status{ResponseWriter: w, code: http.StatusOK}
		handler.ServeHTTP(seen, r.WithContext(ctx))
		span.SetAttributes(attribute.Int("http.response.status_code", seen.code))
		if seen.code >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(seen.code))
		}
	})
}

type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}
