// Command standin is packed in tests, in the products' place.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() { fmt.Println("shoal-peer", strings.Join(os.Args[1:], " "), "at", os.Getenv("HOME")) }
