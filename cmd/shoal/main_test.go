package main

import (
	"os"
	"testing"

	"shoal/internal/lab/waiting"
)

// asShoal has the program of the tests be shoal itself, for tests that start managers as processes.
const asShoal = "SHOAL_TEST_AS_SHOAL"

func TestMain(m *testing.M) {
	if os.Getenv(asShoal) != "" {
		main()
	}
	os.Exit(waiting.Run(m, 2))
}
