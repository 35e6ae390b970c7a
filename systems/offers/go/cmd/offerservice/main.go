// Command offerservice makes the offers of a journey: six modes in parallel, each within a cap, late ones left out.
package main

import (
	"greenlane/offers/internal/offers"
	"greenlane/offers/internal/program"
)

func main() { program.Main(offers.Command) }
