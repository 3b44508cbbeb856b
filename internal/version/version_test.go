package version

import "testing"

func TestStampWins(t *testing.T) {
	defer func(old string) { stamp = old }(stamp)
	stamp = "v9.8.7"
	if got := String(); got != "v9.8.7" {
		t.Errorf("String() = %q with a stamp of v9.8.7", got)
	}
	stamp = ""
	if String() == "" {
		t.Error("without a stamp the version must still have a name")
	}
}
