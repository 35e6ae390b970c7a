package pricing

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"

	"greenlane/offers/internal/program"
	"greenlane/offers/internal/settings"
	"greenlane/offers/internal/table"
	"greenlane/offers/internal/tracing"
	"greenlane/offers/internal/work"
)

// Command is `pricing`.
func Command(ctx context.Context, arguments []string, out, talk io.Writer) error {
	flags := settings.New("pricing", out)
	listen := flags.Text("listen", "127.0.0.1:7100", "host:port to answer at; port 0 = a free one")
	addresses := flags.Text("upstreams", os.Getenv("OFFERS_UPSTREAMS"), "where upstreams are: eta=127.0.0.1:7001,…")
	folder := flags.Text("table", os.Getenv("OFFERS_TABLE"), "folder of endpoints.toml and its neighbours")
	calibrate := flags.Switch("calibrate", "print iterations in one millisecond of CPU by kind of work, as JSON, and end")
	procs := flags.Text("procs", first(os.Getenv("GOMAXPROCS"), "1"), "GOMAXPROCS; 1 = as much as one Python process")
	collect := flags.Text("gogc", first(os.Getenv("GOGC"), "100"), "garbage collection begins at so many % of growth; off")
	memory := flags.Text("memory-mb", "0", "soft limit of memory, with -gogc off; 0 = none")
	heavy := flags.Text("heavy-at-once", "0", "how many heavy and mixed requests compute at a time; 0 = no limit")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := tune(flags, *procs, *collect, *memory); err != nil {
		return err
	}
	if *calibrate {
		return json.NewEncoder(out).Encode(rounded(work.Calibrate(work.Rounds)))
	}
	heavyAtOnce, err := flags.Whole("-heavy-at-once", *heavy, 0, 1000)
	if err != nil {
		return err
	}
	described, err := table.Read(*folder)
	if err != nil {
		return flags.Wrong("-table", *folder, "the folder of the offers table ("+err.Error()+")")
	}
	upstreams, err := flags.Pairs("-upstreams", *addresses, described.UpstreamNames())
	if err != nil {
		return err
	}
	rates, err := work.FromEnvironment("start pricing")
	if err != nil {
		return err
	}
	traces, err := tracing.FromEnvironment("pricing", talk)
	if err != nil {
		return err
	}
	defer traces.Close()
	listener, err := program.Listen(flags, "-listen", *listen)
	if err != nil {
		return err
	}
	service := New(upstreams, rates, traces, heavyAtOnce)
	return program.Serve(ctx, listener, service.Handler(described.Endpoints), talk)
}

// tune sets what a Go developer would: how many threads run Go code, and how often garbage is collected.
func tune(flags *settings.Flags, procs, collect, memory string) error {
	count, err := flags.Whole("-procs", procs, 1, 1024)
	if err != nil {
		return err
	}
	percent := -1
	if collect != "off" {
		if percent, err = flags.Whole("-gogc", collect, 1, 100_000); err != nil {
			return err
		}
	}
	limit, err := flags.Whole("-memory-mb", memory, 0, 1<<20)
	if err != nil {
		return err
	}
	if limit == 0 && percent < 0 {
		return flags.Wrong("-gogc", collect, "a number while -memory-mb is 0: garbage would never be collected")
	}
	runtime.GOMAXPROCS(count)
	debug.SetGCPercent(percent)
	if limit > 0 {
		debug.SetMemoryLimit(int64(limit) << 20)
	}
	return nil
}

func rounded(rates work.Rates) work.Rates {
	found := work.Rates{}
	for kind, rate := range rates {
		found[kind] = math.Round(rate*1e4) / 1e4
	}
	return found
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
