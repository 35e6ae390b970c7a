package work

import (
	"strings"
	"testing"
)

func TestEveryKindDoesAsMuchAsItIsAsked(t *testing.T) {
	// What an iteration leaves, seen from its result: lengths and counts grow with iterations, states do not.
	grows := map[string]bool{"json": true, "regex": true, "template": true}
	for _, kind := range Kinds() {
		one, many := Perform(kind, 1), Perform(kind, 70)
		if one == 0 {
			t.Errorf("%s: nothing was done", kind)
		}
		if many != Perform(kind, 70) {
			t.Errorf("%s: another result from the same iterations", kind)
		}
		if grows[kind] && (many < 69*one || many > 71*one) {
			t.Errorf("%s: 70 iterations gave %d, one gave %d", kind, many, one)
		}
	}
	if Perform("burn", 7) != 84637 {
		t.Errorf("burn is not Python's")
	}
}

func TestCalibrationKnowsEveryKind(t *testing.T) {
	rates := Calibrate(2)
	for _, kind := range Kinds() {
		if !(rates[kind] > 1) {
			t.Errorf("%s: %v iterations in a millisecond", kind, rates[kind])
		}
	}
}

func TestIterationsAreWholeAndAtLeastOne(t *testing.T) {
	rates := Rates{"json": 350.5}
	for cpuMs, expected := range map[float64]int{0: 1, 0.001: 1, 0.4: 140, 2: 701} {
		if found := rates.Iterations("json", cpuMs); found != expected {
			t.Errorf("%v ms: %d, expected %d", cpuMs, found, expected)
		}
	}
}

func TestTheEnvironmentIsReadOrRefused(t *testing.T) {
	t.Setenv(variable, `{"burn":1,"geometry":2,"json":3,"regex":4,"sort":5,"template":6.5}`)
	if found, err := FromEnvironment("start"); err != nil || found["template"] != 6.5 {
		t.Errorf("%v, %v", found, err)
	}
	for _, text := range []string{`{}`, `x`, `{"burn":0,"geometry":2,"json":3,"regex":4,"sort":5,"template":6}`} {
		t.Setenv(variable, text)
		_, err := FromEnvironment("start pricing")
		if err == nil || !strings.Contains(err.Error(), "start pricing: OFFERS_ITERATIONS=") || !strings.Contains(err.Error(), "\nhint: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func BenchmarkKinds(b *testing.B) {
	for _, kind := range Kinds() {
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			Perform(kind, b.N)
		})
	}
}
