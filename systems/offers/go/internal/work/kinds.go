package work

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// page is how many documents json and regex take at once.
const page = 32

type leg struct {
	From    [2]float64 `json:"from"`
	To      [2]float64 `json:"to"`
	Seconds int        `json:"s"`
}

type ride struct {
	ID     string   `json:"id"`
	Mode   string   `json:"mode"`
	Cents  int      `json:"cents"`
	Metres int      `json:"metres"`
	Tags   []string `json:"tags"`
	Legs   []leg    `json:"legs"`
}

type vehicle struct {
	metres int
	name   string
	cents  int
}

type point struct{ lat, lon float64 }

var (
	oneRide = ride{
		ID: "ride-00417", Mode: "bike", Cents: 465, Metres: 2140, Tags: []string{"hills", "helmet", "pass"},
		Legs: []leg{{From: [2]float64{45.76, 4.83}, To: [2]float64{45.77, 4.86}, Seconds: 512}},
	}
	ridesJSON = pagesOf(oneRide)
	note      = "zone=hills-7;rate=0.19;per=min;code=SPRING24;until=2026-03-31\n"
	notes     = strings.Repeat(note, page)
	rule      = regexp.MustCompile(`zone=([a-z]+)-(\d+);rate=(\d+\.\d+);per=(\w+);code=([A-Z]+)(\d*);until=([\d-]+)`)
	line      = template.Must(template.New("line").Funcs(template.FuncMap{
		"upper": strings.ToUpper,
		"euros": func(cents int) float64 { return float64(cents) / 100 },
		"mins":  func(seconds int) int { return seconds / 60 },
	}).Parse(`<tr><td>{{upper .Mode}}</td><td>{{printf "%.2f" (euros .Cents)}}</td>` +
		`{{range .Legs}}<td>{{mins .Seconds}} min</td>{{end}}</tr>`))
	vehicles = fleet()
	path     = way()
)

// burn is arithmetic of whole numbers below 2^22: a price built up in small steps, 100 an iteration.
func burn(iterations int) int {
	state := 1
	for range iterations * 100 {
		state = (state*37 + 11) & 0x1ffff
	}
	return state
}

// geometry is the length of a way of 17 points on the sphere (haversine).
func geometry(iterations int) int {
	metres := 0.0
	for range iterations {
		metres = 0
		for at := 1; at < len(path); at++ {
			metres += haversine(path[at-1], path[at])
		}
	}
	return int(metres)
}

func haversine(from, to point) float64 {
	const earthM = 6_371_008.8
	halfLat, halfLon := radians(to.lat-from.lat)/2, radians(to.lon-from.lon)/2
	across := math.Cos(radians(from.lat)) * math.Cos(radians(to.lat)) * math.Sin(halfLon) * math.Sin(halfLon)
	return 2 * earthM * math.Asin(math.Sqrt(math.Sin(halfLat)*math.Sin(halfLat)+across))
}

func radians(degrees float64) float64 { return degrees * math.Pi / 180 }

// documents is a ride parsed and written again, by the page.
func documents(iterations int) int {
	length := 0
	for left := iterations; left > 0; left -= page {
		var rides []ride
		if err := json.Unmarshal(ridesJSON[min(left, page)], &rides); err != nil {
			panic(err)
		}
		text, err := json.Marshal(rides)
		if err != nil {
			panic(err)
		}
		length += len(text)
	}
	return length
}

// expressions is a line of rules taken apart, by the page.
func expressions(iterations int) int {
	found := 0
	for left := iterations; left > 0; left -= page {
		found += len(rule.FindAllStringSubmatch(notes[:len(note)*min(left, page)], -1))
	}
	return found
}

// order is 48 vehicles by how far they are, then by price.
func order(iterations int) int {
	farthest := 0
	for range iterations {
		sorted := slices.Clone(vehicles)
		slices.SortFunc(sorted, func(a, b vehicle) int {
			return cmp.Or(cmp.Compare(a.metres>>4, b.metres>>4), cmp.Compare(a.cents, b.cents))
		})
		farthest = sorted[len(sorted)-1].cents
	}
	return farthest
}

// pages is a receipt's line by a template.
func pages(iterations int) int {
	length := 0
	var out bytes.Buffer
	for range iterations {
		out.Reset()
		if err := line.Execute(&out, oneRide); err != nil {
			panic(err)
		}
		length += out.Len()
	}
	return length
}

func pagesOf(one ride) [page + 1][]byte {
	var found [page + 1][]byte
	for size := range found {
		text, err := json.Marshal(slices.Repeat([]ride{one}, size))
		if err != nil {
			panic(err)
		}
		found[size] = text
	}
	return found
}

func fleet() []vehicle {
	all := make([]vehicle, 48)
	for n := range all {
		all[n] = vehicle{n * 7919 % 1009, "vehicle-" + string(rune('a'+n%26)), n * 104_729 % 2003}
	}
	return all
}

func way() []point {
	all := make([]point, 17)
	for n := range all {
		all[n] = point{45.75 + 0.003*float64(n), 4.83 + 0.002*float64(n*n%11)}
	}
	return all
}
