package main

import (
	"os"
	"testing"

	"shoal/internal/lab/waiting"
)

// asShoal has the program of the tests be shoal itself. Every process that a test starts inherits it, as the managers of `up --cluster` do.
const asShoal = "SHOAL_TEST_AS_SHOAL"

func TestMain(m *testing.M) {
	if os.Getenv(asShoal) != "" {
		main()
	}
	if err := os.Setenv(asShoal, "1"); err != nil {
		panic(err)
	}
	os.Exit(waiting.Run(m, 4)) // they wait for peers, for heartbeats of managers and for terms to end
}
