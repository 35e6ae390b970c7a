// Package program is what the three commands have in common: exit codes, signals, one listener.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"greenlane/offers/internal/settings"
)

// Exit codes.
const (
	Well        = 0
	Failed      = 1
	Usage       = 2
	Interrupted = 130
)

// grace is how long requests that run at SIGTERM may take to end; with what follows it the whole stays below the three
// seconds after which whoever started us kills.
const grace = 1500 * time.Millisecond

// Main runs a program until it ends by itself, SIGTERM (exit code 0) or Ctrl-C (130).
func Main(run func(ctx context.Context, arguments []string, out, talk io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	done := make(chan error, 1)
	go func() { done <- run(ctx, os.Args[1:], os.Stdout, os.Stderr) }()
	select {
	case err := <-done:
		stop()
		os.Exit(code(err, os.Stderr))
	case <-interrupted:
		os.Exit(Interrupted)
	}
}

func code(err error, talk io.Writer) int {
	var wrong settings.Wrong
	switch {
	case err == nil || errors.Is(err, settings.ErrHelp):
		return Well
	case errors.As(err, &wrong):
		fmt.Fprintln(talk, err)
		return Usage
	}
	fmt.Fprintln(talk, err)
	return Failed
}

// Listen opens the address; the error of one that cannot be had is the setting's.
func Listen(flags *settings.Flags, name, address string) (net.Listener, error) {
	if _, err := flags.Address(name, address); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, flags.Wrong(name, address, "an address that is free here ("+err.Error()+")")
	}
	return listener, nil
}

// Serve answers until ctx ends and what runs then is answered, which it is given 1.5 s for. The first line that it
// writes says where.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, talk io.Writer) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(talk, "listening on http://%s\n", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		server.Close()
	}
	return nil
}
