package upstream

import (
	"context"
	"io"
	"os"
	"slices"

	"greenlane/offers/internal/program"
	"greenlane/offers/internal/settings"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
	"greenlane/offers/internal/work"
)

// Command is `upstream`.
func Command(ctx context.Context, arguments []string, out, talk io.Writer) error {
	flags := settings.New("upstream", out)
	listen := flags.Text("listen", "127.0.0.1:7001", "host:port to answer at; port 0 = a free one")
	wanted := flags.Text("names", "eta,routing", "which of the table's upstreams")
	folder := flags.Text("table", os.Getenv("OFFERS_TABLE"), "folder of upstreams.toml and its neighbours")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	described, err := table.Read(*folder)
	if err != nil {
		return flags.Wrong("-table", *folder, "the folder of the offers table ("+err.Error()+")")
	}
	names, err := flags.Names("-names", *wanted, described.UpstreamNames())
	if err != nil {
		return err
	}
	rates, err := work.FromEnvironment("start upstream")
	if err != nil {
		return err
	}
	traces, err := tracing.FromEnvironment("upstream-go", talk)
	if err != nil {
		return err
	}
	defer traces.Close()
	listener, err := program.Listen(flags, "-listen", *listen)
	if err != nil {
		return err
	}
	theirs := slices.DeleteFunc(described.Upstreams, func(u table.Upstream) bool { return !slices.Contains(names, u.Name) })
	return program.Serve(ctx, listener, New(theirs, rates, traces).Handler(), talk)
}
