package version

import "testing"

func TestStampWins(t *testing.T) {
	defer func(old string) { stamp = old }(stamp)
	stamp = "v9.8.7"
	if got := String(); got != "v9.8.7" {
		t.Errorf("String() = %q with a stamp of v9.8.7", got)
	}
	for given, want := range map[string]string{"1.2.3": "v1.2.3", "1.2.3-4-gabcdef0": "v1.2.3-4-gabcdef0", "0abcdef": "0abcdef", "devel": "devel"} {
		if stamp = given; String() != want {
			t.Errorf("String() = %q with a stamp of %s, want %s: no peer would know it again", String(), given, want)
		}
	}
	stamp = ""
	if String() == "" {
		t.Error("without a stamp the version must still have a name")
	}
}
