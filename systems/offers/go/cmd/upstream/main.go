// Command upstream is one process of upstream services: those of the table that are said to be in Go.
package main

import (
	"greenlane/offers/internal/program"
	"greenlane/offers/internal/upstream"
)

func main() { program.Main(upstream.Command) }
