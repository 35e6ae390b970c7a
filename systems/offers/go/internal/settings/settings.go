// Package settings reads what a program is told: command line and environment. A wrong value is answered with the
// setting, its value, the rule and one hint, and the program ends with 2.
package settings

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrHelp means that -help was asked for and has been answered.
var ErrHelp = flag.ErrHelp

// Wrong is a setting that is not as it must be.
type Wrong struct {
	// Doing is what was attempted: "start pricing".
	Doing string
	// Name is the setting's: "-cap", "OFFERS_ITERATIONS".
	Name string
	// Value is what was given.
	Value string
	// Rule completes "expected …".
	Rule string
	// Hint is one action.
	Hint string
}

func (w Wrong) Error() string {
	return fmt.Sprintf("%s: %s=%q, expected %s\nhint: %s", w.Doing, w.Name, w.Value, w.Rule, w.Hint)
}

// Flags is a command line. Every value is read as text and checked by the functions below, so that each error has the
// house's form.
type Flags struct {
	program string
	set     *flag.FlagSet
	out     io.Writer
}

// New is the command line of a program; what it answers to -help goes to out.
func New(program string, out io.Writer) *Flags {
	set := flag.NewFlagSet(program, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return &Flags{program, set, out}
}

// Text declares an option with a value.
func (f *Flags) Text(name, value, usage string) *string { return f.set.String(name, value, usage) }

// Texts declares an option that may be given several times.
func (f *Flags) Texts(name, usage string) *[]string {
	var all []string
	f.set.Func(name, usage, func(value string) error {
		all = append(all, value)
		return nil
	})
	return &all
}

// Switch declares an option that is on when it is there.
func (f *Flags) Switch(name, usage string) *bool { return f.set.Bool(name, false, usage) }

// Parse reads the arguments; ErrHelp when they ask for the list of options.
func (f *Flags) Parse(arguments []string) error {
	err := f.set.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(f.out, "%s: options\n", f.program)
		f.set.SetOutput(f.out)
		f.set.PrintDefaults()
		return ErrHelp
	case err != nil:
		return f.Wrong("options", strings.Join(arguments, " "), "options as listed by -help ("+err.Error()+")")
	case f.set.NArg() > 0:
		return f.Wrong("options", f.set.Arg(0), "nothing beside options")
	}
	return nil
}

// Wrong is the error about one of this program's settings.
func (f *Flags) Wrong(name, value, rule string) Wrong {
	return Wrong{"start " + f.program, name, value, rule, f.program + " -help lists every option"}
}

// Address checks host:port.
func (f *Flags) Address(name, value string) (string, error) {
	host, port, err := net.SplitHostPort(value)
	number, bad := strconv.Atoi(port)
	if err != nil || bad != nil || host == "" || number < 0 || number > 65535 {
		return "", f.Wrong(name, value, "host:port")
	}
	return value, nil
}

// URL checks the address of a service, without a path: http://host:port.
func (f *Flags) URL(name, value string) (string, error) {
	if !IsService(value) {
		return "", f.Wrong(name, value, "http://host:port")
	}
	return strings.TrimRight(value, "/"), nil
}

// IsService is whether a text is http://host:port.
func IsService(value string) bool {
	found, err := url.Parse(value)
	return err == nil && found.Scheme == "http" && found.Port() != "" && strings.Trim(found.Path, "/") == "" &&
		found.RawQuery == "" && found.User == nil
}

// Duration checks a time within bounds, given as Go writes it: 500ms, 2s.
func (f *Flags) Duration(name, value string, least, most time.Duration) (time.Duration, error) {
	found, err := time.ParseDuration(value)
	if err != nil || found < least || found > most {
		return 0, f.Wrong(name, value, fmt.Sprintf("a time from %s to %s", least, most))
	}
	return found, nil
}

// Whole checks a whole number within bounds.
func (f *Flags) Whole(name, value string, least, most int) (int, error) {
	found, err := strconv.Atoi(value)
	if err != nil || found < least || found > most {
		return 0, f.Wrong(name, value, fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return found, nil
}

// Pairs reads "eta=127.0.0.1:7001,routing=…" in which each name is one of known; none is fine.
func (f *Flags) Pairs(name, value string, known []string) (map[string]string, error) {
	found := map[string]string{}
	for _, pair := range strings.Split(value, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, address, _ := strings.Cut(pair, "=")
		if _, err := f.Address(name, address); err != nil {
			return nil, f.Wrong(name, value, "name=host:port,…")
		}
		if !contains(known, key) {
			return nil, f.Wrong(name, value, "some of "+strings.Join(known, ", "))
		}
		found[key] = address
	}
	return found, nil
}

// Names reads "eta,routing", each out of known, at least one.
func (f *Flags) Names(name, value string, known []string) ([]string, error) {
	found := strings.Split(value, ",")
	for _, one := range found {
		if !contains(known, one) {
			return nil, f.Wrong(name, value, "some of "+strings.Join(known, ", "))
		}
	}
	return found, nil
}

func contains(known []string, name string) bool {
	for _, one := range known {
		if one == name {
			return true
		}
	}
	return false
}
