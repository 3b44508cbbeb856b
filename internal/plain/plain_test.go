package plain

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

func TestError(t *testing.T) {
	for err, want := range map[error]string{
		errors.Join(errors.New("a: taken over"), errors.New("b"), errors.New("a: taken over")):                 "a: taken over; b",
		errors.New("badgerdb: data folder is in use: stop that one"):                                           "data folder is in use: stop that one",
		fmt.Errorf("the pond cannot be made: %w", errors.New("pond: bad config: 3 hosts")):                     "the pond cannot be made: bad config: 3 hosts",
		errors.Join(errors.New("wire: a"), errors.New("archive: pond: b")):                                     "a; b",
		errors.New("channel: no such channel: 99"):                                                             "no such channel: 99",
		errors.New("line 2: listing: bad line: no url"):                                                        "line 2: bad line: no url",
		errors.New("all dials failed\n  * [/ip4/1.2.3.4] refused"):                                             "all dials failed; [/ip4/1.2.3.4] refused",
		errors.New(`line 2: json: cannot unmarshal string into Go struct field Record.weight of type float32`): `line 2: weight is a string, and should be another kind of value (float32)`,
	} {
		if got := Error(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	var c struct {
		Up struct {
			N    int
			Seed uint64
			For  time.Duration
			F    float64
			S    string
			E    string `enum:"ask,off" default:"off"`
			G    string `enum:",csv,list" default:""`
			H    string `enum:"csv,list," default:""`
			L    []string
			M    map[string]string
			At   time.Time
		} `cmd:""`
	}
	k, err := kong.New(&c, kong.Name("shoal"), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ flag, want string }{
		{"--n=x", `--n: want a whole number, not "x"`},
		{"--seed=-1", `--seed: want a whole number, zero or more, not "-1"`},
		{"--for=soon", `--for: want a time with its unit, such as 60s or 2h, not "soon"`},
		{"--f=x", `--f: want a number, not "x"`},
		{"--s", "--s: a value is missing behind it"},
		{"--unheard", "unknown flag --unheard"},
		{"--g=pdf", `--g: want one of "csv","list", not "pdf"`},
		{"--h=pdf", `--h: want one of "csv","list", not "pdf"`},
		{"--n=1 --n=2", "--n is there twice: give it once"},
		{"--e=ask --l=a --l=b --m=a=1 --m=b=2 --e=off", "--e is there twice: give it once"},
		{"--m=x", `--m: want NAME=VALUE, not "x"`},
		{"--at=noon", `--at: want a time such as 2026-05-01T12:00:00Z, not "noon"`},
		{"--e=on", `--e: want one of "ask","off", not "on"`},
	} {
		_, err := Parse(k, append([]string{"up"}, strings.Fields(x.flag)...))
		if err == nil {
			t.Fatalf("%s was taken", x.flag)
		}
		text, help := Usage("shoal", err)
		if text != x.want || help != "shoal up --help" {
			t.Errorf("%s: %q, want %q; try %q", x.flag, text, x.want, help)
		}
	}
}

// TestUsageOfArguments: what is missing is named, and so are the words that an argument may be.
func TestUsageOfArguments(t *testing.T) {
	var c struct {
		Deny struct {
			Domain string `arg:""`
		} `cmd:""`
		History struct {
			Span string `arg:"" optional:"" enum:"hour,day" default:"hour"`
		} `cmd:""`
	}
	k, err := kong.New(&c, kong.Name("shoal"), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ args, want string }{
		{"deny", "<domain> is missing"},
		{"history week", `<span>: want one of "hour","day", not "week"`},
	} {
		_, err := k.Parse(strings.Fields(x.args))
		if err == nil {
			t.Fatalf("%s was taken", x.args)
		}
		if text, _ := Usage("shoal", err); text != x.want {
			t.Errorf("%s: %q, want %q", x.args, text, x.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	var c struct {
		Page  string `help:"Address of the page." default:"127.0.0.1:7780" placeholder:"ADDR"`
		Seed  int    `help:"A seed." default:"7"`
		Keep  int    `help:"Versions to keep; 0: all." default:"0" placeholder:"N"`
		Order string `help:"Ordering. By default the last one." default:"x" placeholder:"NAME"`
		Port  *int   `help:"Port." placeholder:"N"`
		Data  string `help:"Folder."`
		Why   string `help:"Why." default:"by an operator" placeholder:"TEXT"`
	}
	var out strings.Builder
	k, err := kong.New(&c, kong.Name("shoal"), kong.Exit(func(int) {}), kong.Writers(&out, &out), kong.ValueFormatter(Defaults(map[string]string{"port": "7785", "keep": "0"})))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Parse([]string{"--help"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Address of the page; default 127.0.0.1:7780.\n", "--seed=7 ", "A seed.\n", "0: all.\n", "By default the last one.\n", "Port; default 7785.\n", "Folder.\n", "Why; default \"by an operator\".\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestCount(t *testing.T) {
	if got := Count(0, "peer") + ", " + Count(1, "peer") + ", " + Count(2, "peer"); got != "0 peers, 1 peer, 2 peers" {
		t.Error(got)
	}
}

// What a terminal would act on, or cannot show, is escaped wherever it came from.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"naïve 網站\n\tx":          "naïve 網站\n\tx",
		"\x1b[2Jgone\a":          `\x1b[2Jgone\a`,
		"\xff\xfe\x00PNG\r":      `\xff\xfe\x00PNG\r`,
		"right\u202eto left":     `right\u202eto left`,
		"a soft\u00adhyphen, no": `a soft\u00adhyphen, no`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
		if err := Error(errors.New("no URL: " + text)); strings.ContainsAny(err, "\x1b\x00\a\r") {
			t.Errorf("the error prints %q", err)
		}
	}
}

// TestMend: a full disk and one that can only be read have an advice, other errors none.
func TestMend(t *testing.T) {
	for want, err := range map[string]error{
		"make room on that disk": &os.PathError{Op: "write", Path: "/d/usage.json", Err: syscall.ENOSPC},
		"make that disk writable, or name another folder with --data": fmt.Errorf("data folder: %w", &os.PathError{Op: "open", Path: "/d/run.lock", Err: syscall.EROFS}),
		"": errors.Join(os.ErrNotExist, io.EOF),
	} {
		if got := Mend(err); got != want {
			t.Errorf("%v: %q", err, got)
		}
	}
}

// TestUsageOfAnotherPlace: who leaves out the word before a command learns where it stands.
func TestUsageOfAnotherPlace(t *testing.T) {
	type named struct {
		Name string `arg:""`
	}
	var c struct {
		Channel struct {
			Add  named `cmd:""`
			List named `cmd:""`
		} `cmd:""`
		Host struct {
			List  named `cmd:""`
			Block named `cmd:""`
		} `cmd:""`
	}
	k, err := kong.New(&c, kong.Name("shoal"), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ args, want string }{
		{"add x", "unexpected argument add: do you mean shoal channel add?"},
		{"list", "unexpected argument list: do you mean shoal channel list or shoal host list?"},
		{"channel block x", "unexpected argument block: do you mean shoal host block?"},
		{"blocked x", "unexpected argument blocked"},
	} {
		_, err := k.Parse(strings.Fields(x.args))
		if err == nil {
			t.Fatalf("%s was taken", x.args)
		}
		if text, _ := Usage("shoal", err); text != x.want {
			t.Errorf("%s: %q, want %q", x.args, text, x.want)
		}
	}
}

// several is a flag's values, in a type of their own.
type several []string

// TestParse: flags that take several values may be there several times, whatever their type is called.
func TestParse(t *testing.T) {
	var c struct {
		W several
		L []string
		M map[string]string
		V int `type:"counter"`
	}
	k, err := kong.New(&c, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(k, strings.Fields("--w=a --w=b --l=a --l=b --m=a=1 --m=b=2 --v --v")); err != nil || len(c.W) != 2 || len(c.L) != 2 || len(c.M) != 2 || c.V != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}
