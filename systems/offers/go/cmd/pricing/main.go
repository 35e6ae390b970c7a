// Command pricing is the twin in Go of the pricing service in Flask.
package main

import (
	"greenlane/offers/internal/pricing"
	"greenlane/offers/internal/program"
)

func main() { program.Main(pricing.Command) }
