package main

import (
	"os"
	"testing"

	"shoal/internal/lab/waiting"
)

func TestMain(m *testing.M) { os.Exit(waiting.Run(m, 2)) }
