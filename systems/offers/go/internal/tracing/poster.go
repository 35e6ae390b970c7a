package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	collected "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// poster sends spans as OTLP over HTTP in protobuf.
//
// Why not otlptracehttp: it compiles all of gRPC, which doubles a first build. The message is the same on the wire:
// TracesData and ExportTraceServiceRequest have one field, of one type and number. It does not try again: what a
// collector refuses is said and dropped.
type poster struct {
	to     string
	client http.Client
}

const patience = 5 * time.Second

// endpoint is where traces go, and the variable that says so; empty = nowhere.
func endpoint() (to, name string) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if to := os.Getenv(name); to != "" {
			return to, name
		}
	}
	return "", ""
}

func newPoster(to string) (*poster, error) {
	found, err := url.Parse(to)
	if err != nil || found.Host == "" || found.Scheme != "http" && found.Scheme != "https" {
		return nil, fmt.Errorf("no address of a collector: %q", to)
	}
	if os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		to = strings.TrimRight(to, "/") + "/v1/traces"
	}
	return &poster{to: to, client: http.Client{Timeout: patience}}, nil
}

// Start does nothing: a collector that comes up later is fine.
func (p *poster) Start(context.Context) error { return nil }

// Stop closes connections.
func (p *poster) Stop(context.Context) error {
	p.client.CloseIdleConnections()
	return nil
}

// UploadTraces sends one batch.
func (p *poster) UploadTraces(ctx context.Context, spans []*collected.ResourceSpans) error {
	body, err := proto.Marshal(&collected.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("send %d bytes of spans to %s: status=%d, expected 2xx; it said %.200q", len(body), p.to, answer.StatusCode, said)
	}
	return nil
}
