package offers

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"greenlane/offers/internal/program"
	"greenlane/offers/internal/settings"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
)

// drained is how long calls that nobody waits for may go on when the service ends.
const drained = 500 * time.Millisecond

// Command is `offerservice`.
func Command(ctx context.Context, arguments []string, out, talk io.Writer) error {
	flags := settings.New("offerservice", out)
	listen := flags.Text("listen", "127.0.0.1:7000", "host:port to answer at; port 0 = a free one")
	pricing := flags.Text("pricing", "http://127.0.0.1:7100", "who prices: http://host:port")
	apart := flags.Texts("pricing-for", "who prices some modes: bikes,scooters=http://host:port; may be given again")
	addresses := flags.Text("upstreams", os.Getenv("OFFERS_UPSTREAMS"), "where upstreams are: eta=127.0.0.1:7001,…")
	limit := flags.Text("cap", "500ms", "how long one offer may take")
	cancel := flags.Switch("cancel", "end what is asked for an offer at the cap; else the late reply is read and counted")
	propagate := flags.Switch("propagate-deadline", "say in each call how long its answer is of use")
	folder := flags.Text("table", os.Getenv("OFFERS_TABLE"), "folder of modes.toml and its neighbours")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	described, err := table.Read(*folder)
	if err != nil {
		return flags.Wrong("-table", *folder, "the folder of the offers table ("+err.Error()+")")
	}
	plan := Plan{Cancel: *cancel, Propagate: *propagate}
	if plan.Targets, err = targets(flags, *pricing, *apart, described.ModeNames()); err != nil {
		return err
	}
	if plan.Upstreams, err = flags.Pairs("-upstreams", *addresses, described.UpstreamNames()); err != nil {
		return err
	}
	if plan.Cap, err = flags.Duration("-cap", *limit, time.Millisecond, time.Minute); err != nil {
		return err
	}
	traces, err := tracing.FromEnvironment("offerservice", talk)
	if err != nil {
		return err
	}
	defer traces.Close()
	listener, err := program.Listen(flags, "-listen", *listen)
	if err != nil {
		return err
	}
	service := New(described, plan, traces)
	defer service.Drain(drained)
	return program.Serve(ctx, listener, service.Handler(), talk)
}

func targets(flags *settings.Flags, all string, apart []string, modes []string) (*Targets, error) {
	wanted := Targets{Default: all, For: map[string]string{}}
	if _, err := flags.URL("-pricing", all); err != nil {
		return nil, err
	}
	for _, one := range apart {
		names, url, _ := strings.Cut(one, "=")
		for _, mode := range strings.Split(names, ",") {
			wanted.For[mode] = url
		}
		if _, err := wanted.check(modes); err != nil {
			return nil, flags.Wrong("-pricing-for", one, "modes=http://host:port ("+err.Error()+")")
		}
	}
	return wanted.check(modes)
}
