package allocsim

import (
	"fmt"
	"math"
	"os"

	"github.com/alecthomas/kong"

	"shoal/recrawl/allocate"
)

// Limits of what is drawn.
const (
	maxPages = allocate.MaxTasks
	maxMean  = 1e9 // updates
)

// changesVariable stands in for --changes in every call, and so also in calls that draw nothing.
const changesVariable = "SHOAL_CHANGES"

// check refuses flags that cannot be used, and those that would be ignored.
func (c *Allocate) check() error {
	drawn := c.Pages == "" || c.Figures || c.Plot != ""
	switch {
	case c.R < 0:
		return fmt.Errorf("%w: --r %d: want 0 or more crawls", ErrFlags, c.R)
	case drawn && (c.N < 1 || c.N > maxPages):
		return fmt.Errorf("%w: --n %d: want 1 to %d pages", ErrFlags, c.N, maxPages)
	case drawn && !(c.Mean > 0 && c.Mean <= maxMean):
		return fmt.Errorf("%w: --mean %g: want above 0, at most %g updates", ErrFlags, c.Mean, maxMean)
	case drawn && !(c.Theta >= 0 && c.Theta <= 1):
		return fmt.Errorf("%w: --theta %g: want 0 to 1", ErrFlags, c.Theta)
	case drawn && !(c.Shape > 1 && c.Shape <= math.MaxFloat64):
		return fmt.Errorf("%w: --shape %g: want a number above 1", ErrFlags, c.Shape)
	case c.Pages == "" && (c.Clicks != "" || c.Positions != ""):
		return fmt.Errorf("%w: --clicks and --positions are about the pages of a file: name it with --pages", ErrFlags)
	case (c.Clicks == "") != (c.Positions == ""):
		return fmt.Errorf("%w: --clicks and --positions go together: give both", ErrFlags)
	case c.Pages == "" && c.Span != 1:
		return fmt.Errorf("%w: --span %g is for the pages of a file, which --pages names; drawn pages have an interval of length 1", ErrFlags, c.Span)
	case c.Changes != "" && c.Plot == "" && c.Changes != kong.ExpandPath(os.Getenv(changesVariable)):
		return fmt.Errorf("%w: --changes is for figure 6: name a folder for the figures with --plot", ErrFlags)
	}
	return nil
}

// canCreate tells before a long run that the file which a flag names cannot be written after it. What is there stays as it is.
func canCreate(flag, name string) error {
	if name == "" {
		return nil
	}
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil // opening a pipe would be seen at its other end
	}
	f, openErr := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if openErr != nil {
		return fmt.Errorf("--%s: cannot write the file: %w; name one that can be written to", flag, openErr)
	}
	f.Close()
	if os.IsNotExist(err) {
		return os.Remove(name)
	}
	return nil
}
