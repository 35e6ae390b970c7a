package settings

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestAWrongValueIsNamedWithItsRuleAndAHint(t *testing.T) {
	flags := New("pricing", io.Discard)
	errs := map[string]error{}
	_, errs[`start pricing: -listen="nowhere", expected host:port`] = flags.Address("-listen", "nowhere")
	_, errs[`start pricing: -listen="a:70000", expected host:port`] = flags.Address("-listen", "a:70000")
	_, errs[`start pricing: -pricing="https://a:1", expected http://host:port`] = flags.URL("-pricing", "https://a:1")
	_, errs[`start pricing: -pricing="http://a:1/x", expected http://host:port`] = flags.URL("-pricing", "http://a:1/x")
	_, errs[`start pricing: -cap="2h", expected a time from 1ms to 1m0s`] = flags.Duration("-cap", "2h", time.Millisecond, time.Minute)
	_, errs[`start pricing: -procs="0", expected a whole number from 1 to 8`] = flags.Whole("-procs", "0", 1, 8)
	_, errs[`start pricing: -names="sky", expected some of eta, zones`] = flags.Names("-names", "sky", []string{"eta", "zones"})
	_, errs[`start pricing: -upstreams="eta", expected name=host:port,…`] = flags.Pairs("-upstreams", "eta", []string{"eta"})
	_, errs[`start pricing: -upstreams="sky=a:1", expected some of eta`] = flags.Pairs("-upstreams", "sky=a:1", []string{"eta"})
	errs[`start pricing: options="-x", expected options as listed by -help`] = flags.Parse([]string{"-x"})
	errs[`start pricing: options="more", expected nothing beside options`] = flags.Parse([]string{"more"})
	for expected, err := range errs {
		var wrong Wrong
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), expected) || !strings.Contains(err.Error(), "\nhint: ") {
			t.Errorf("%v, expected %s", err, expected)
		}
	}
}

func TestRightValuesAreTaken(t *testing.T) {
	flags := New("pricing", io.Discard)
	pairs, err := flags.Pairs("-upstreams", "eta=127.0.0.1:7001, zones=a:1,", []string{"eta", "zones"})
	if err != nil || pairs["eta"] != "127.0.0.1:7001" || pairs["zones"] != "a:1" {
		t.Errorf("%v, %v", pairs, err)
	}
	if url, err := flags.URL("-pricing", "http://a:1/"); err != nil || url != "http://a:1" {
		t.Errorf("%q, %v", url, err)
	}
}

func TestHelpIsNoError(t *testing.T) {
	var said strings.Builder
	flags := New("pricing", &said)
	flags.Text("listen", "127.0.0.1:1", "where")
	if err := flags.Parse([]string{"-help"}); !errors.Is(err, ErrHelp) || !strings.Contains(said.String(), "-listen") {
		t.Errorf("%v, %q", err, said.String())
	}
}
