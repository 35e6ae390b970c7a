package table

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const folder = "../../../table"

func TestTheTableIsReadWhole(t *testing.T) {
	found, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Endpoints) < 100 || len(found.Modes) != 6 || len(found.Regions) != 3 || len(found.Upstreams) != 4 {
		t.Errorf("%d endpoints, %d modes, %d regions, %d upstreams",
			len(found.Endpoints), len(found.Modes), len(found.Regions), len(found.Upstreams))
	}
	bikes, known := found.Endpoint(found.Modes[0].Price)
	if !known || bikes.Kind != "offer" || bikes.CPUMs() <= 0 || bikes.CPUMs() > 3 {
		t.Errorf("bikes are priced by %+v", bikes)
	}
	for _, mode := range found.Modes {
		if (mode.BaseCents > 0) != slices.Contains(mode.Calls, "rules") {
			t.Errorf("%s: %d cents by the factor of %v", mode.Name, mode.BaseCents, mode.Calls)
		}
	}
}

func TestATableThatContradictsItselfIsRefused(t *testing.T) {
	for _, one := range []struct{ file, text, says string }{
		{"endpoints", "[[endpoint]]\nname = \"a\"\nsteps = [{ call = \"sky\" }]", `call="sky", expected one of [eta]`},
		{"endpoints", "[[endpoint]]\nname = \"a\"\nsteps = [{ cpu_ms = 1.0 }]", "expected either work or call"},
		{"modes", "[[mode]]\nname = \"bikes\"\nprice = \"nowhere\"", `price="nowhere", expected an endpoint's name`},
		{"modes", "[[mode]]\nname = \"bikes\"\ncalls = [\"sky\"]", "expected some of [eta]"},
		{"regions", "[[region", "regions.toml"},
	} {
		place := t.TempDir()
		for _, name := range []string{"endpoints", "modes", "regions"} {
			write(t, place, name, "")
		}
		write(t, place, "upstreams", "[[upstream]]\nname = \"eta\"")
		write(t, place, one.file, one.text)
		if _, err := Read(place); err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v, expected %s", one.text, err, one.says)
		}
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("an empty folder was read")
	}
}

func write(t *testing.T, place, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(place, name+".toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
