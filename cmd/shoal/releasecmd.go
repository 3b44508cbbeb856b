package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"shoal/internal/member"
	"shoal/internal/plain"
	"shoal/internal/release"
	"shoal/internal/release/signing"
	"shoal/manager/api"
	"shoal/manager/desk"
)

type releaseCmd struct {
	Init    releaseInitCmd    `cmd:"" help:"On a computer that is kept off line: make a release key, and a folder for releases that only this key can sign."`
	Add     releaseAddCmd     `cmd:"" help:"On the offline computer: sign the programs of a new version."`
	Sign    releaseSignCmd    `cmd:"" help:"On the second offline computer, if there are two keys: add its signature."`
	Renew   releaseRenewCmd   `cmd:"" help:"On the offline computer: sign everything once more, once a year, or with another online key after a manager was broken into."`
	Publish releasePublishCmd `cmd:"" help:"On the manager's computer: take in what was signed, so that peers can fetch it."`
	Rollout releaseRolloutCmd `cmd:"" help:"Give a published version to a share of all peers, a small one first."`
	Stop    releaseStopCmd    `cmd:"" help:"Stop the roll-out: no further peer gets the version."`
	Status  releaseStatusCmd  `cmd:"" help:"Show how many peers run which version, and how many fell back."`
}

type releaseInitCmd struct {
	Repo   string   `arg:"" help:"New folder for releases, to be carried to the manager." type:"path"`
	Key    []string `help:"File of a release key, which is made if it is not there. With two, both must sign each release: keep them on two computers." required:"" type:"path" placeholder:"FILE"`
	Backup string   `help:"What shoal key backup wrote: the network's root key says once whose releases its peers take." required:"" type:"path" placeholder:"FILE"`
	JSON   bool     `name:"json" help:"As JSON."`
}

func (c *releaseInitCmd) Run(s streams) error {
	text, err := os.ReadFile(c.Backup)
	if err != nil {
		return fmt.Errorf("read the backup of the network's keys: %w", err)
	}
	network, err := member.ReadBackup(string(text))
	if err != nil {
		return err
	}
	var keys []signing.Key
	for _, path := range c.Key {
		if rel, err := filepath.Rel(c.Repo, path); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("--key %s lies in %s, which is carried to the manager: keep the key elsewhere", path, c.Repo)
		}
		k, err := signing.ReadKey(path)
		if errors.Is(err, os.ErrNotExist) {
			if k, err = signing.NewKey(); err == nil {
				err = k.Write(path)
			}
		}
		if err != nil {
			return err
		}
		keys = append(keys, k)
	}
	if err := (signing.Repo{Dir: c.Repo}).Init(time.Now(), keys, network.SealReleases); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(map[string]any{"network": network.Network.String(), "repository": c.Repo, "keys": c.Key})
	}
	fmt.Fprintf(s.out, "Releases for network %s lie in %s.\nKeep %s on this computer and a copy in a safe place, and never on the manager: whoever has it can run programs on every volunteer's computer, and without it nobody can update them.\n",
		network.Network, c.Repo, strings.Join(c.Key, " and "))
	_, err = fmt.Fprintf(s.out, "Next: shoal release add DIR --repo %s --key %s --notes TEXT\n", c.Repo, c.Key[0])
	return err
}

// signedTold is what signing prints with --json.
type signedTold struct {
	Version string   `json:"version,omitempty"`
	Systems []string `json:"systems,omitempty"`
	Missing int      `json:"signatures_missing"`
}

// told says what is to be done after signing.
func (t *signedTold) told(s streams, asJSON bool, repo string) error {
	if asJSON {
		return json.NewEncoder(s.out).Encode(t)
	}
	if t.Version != "" {
		fmt.Fprintf(s.out, "Signed %s for %s.\n", t.Version, strings.Join(t.Systems, ", "))
	}
	if t.Missing > 0 {
		_, err := fmt.Fprintf(s.out, "It needs %s more. Carry %s to the other offline computer: shoal release sign %s --key FILE\n", plain.Count(t.Missing, "signature"), repo, repo)
		return err
	}
	_, err := fmt.Fprintf(s.out, "Carry %s to the manager's computer: shoal release publish %s\n", repo, repo)
	return err
}

func readKeys(paths []string) (keys []signing.Key, err error) {
	for _, p := range paths {
		k, err := signing.ReadKey(p)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

type releaseAddCmd struct {
	Dir     string   `arg:"" help:"Folder with the packages of shoal-peer that make dist has made, or with the programs themselves." type:"path"`
	Repo    string   `help:"Folder for releases that shoal release init has made." required:"" type:"path" placeholder:"DIR"`
	Key     []string `help:"File of a release key." required:"" type:"path" placeholder:"FILE"`
	Notes   string   `help:"What is new, for volunteers and operators." required:"" placeholder:"TEXT"`
	Version string   `help:"The version, if the names of the files do not say it." placeholder:"V1.2.3"`
	JSON    bool     `name:"json" help:"As JSON."`
}

func (c *releaseAddCmd) Run(s streams) error {
	keys, err := readKeys(c.Key)
	if err != nil {
		return err
	}
	files, version, err := signing.Programs(c.Dir)
	if err != nil {
		return err
	}
	if version == "" {
		version = c.Version
	}
	if version == "" {
		return fmt.Errorf("the files in %s do not say their version: name it with --version", c.Dir)
	}
	v, err := release.Parse(version)
	if err != nil {
		return err
	}
	if c.Version != "" {
		if asked, err := release.Parse(c.Version); err != nil || asked != v {
			return fmt.Errorf("--version %s, and the packages in %s are of %s", c.Version, c.Dir, v)
		}
	}
	missing, err := (signing.Repo{Dir: c.Repo}).Add(time.Now(), v.String(), c.Notes, files, keys...)
	if err != nil {
		return err
	}
	t := signedTold{Version: v.String(), Missing: missing}
	for _, f := range files {
		t.Systems = append(t.Systems, f.System+"-"+f.Arch)
	}
	return t.told(s, c.JSON, c.Repo)
}

type releaseSignCmd struct {
	Repo string `arg:"" help:"Folder for releases." type:"path"`
	Key  string `help:"File of a release key." required:"" type:"path" placeholder:"FILE"`
	JSON bool   `name:"json" help:"As JSON."`
}

func (c *releaseSignCmd) Run(s streams) error {
	k, err := signing.ReadKey(c.Key)
	if err != nil {
		return err
	}
	missing, err := (signing.Repo{Dir: c.Repo}).Sign(k)
	if err != nil {
		return err
	}
	return (&signedTold{Missing: missing}).told(s, c.JSON, c.Repo)
}

type releaseRenewCmd struct {
	Repo      string   `arg:"" help:"Folder for releases." type:"path"`
	Key       []string `help:"File of a release key; all of them are needed." required:"" type:"path" placeholder:"FILE"`
	NewOnline bool     `help:"Make a new key for the manager too: the old one may have been stolen."`
	JSON      bool     `name:"json" help:"As JSON."`
}

func (c *releaseRenewCmd) Run(s streams) error {
	keys, err := readKeys(c.Key)
	if err != nil {
		return err
	}
	if err := (signing.Repo{Dir: c.Repo}).Renew(time.Now(), c.NewOnline, keys...); err != nil {
		return err
	}
	return (&signedTold{}).told(s, c.JSON, c.Repo)
}

type releasePublishCmd struct {
	Repo string `arg:"" help:"Folder for releases, as it was signed." type:"path"`
	keyDir
	JSON bool `name:"json" help:"As JSON."`
}

// Run copies what was signed to the manager's data folder, where a running manager finds it within seconds.
func (c *releasePublishCmd) Run(s streams) error {
	k, err := c.open()
	if err != nil {
		return err
	}
	shelf := shelfOf(c.Data)
	if err := shelf.Take(signing.Repo{Dir: c.Repo}, k.Network, time.Now()); err != nil {
		return err
	}
	programs, until, err := shelf.Programs()
	if err != nil {
		return err
	}
	versions := map[string]bool{}
	for _, p := range programs {
		versions[p.Version] = true
	}
	list := slices.SortedFunc(maps.Keys(versions), func(a, b string) int {
		if release.Newer(a, b) {
			return -1
		}
		return 1
	})
	if c.JSON {
		return json.NewEncoder(s.out).Encode(map[string]any{"versions": list, "signatures_good_until": until})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(s.out, "Published, without a release yet: shoal release add signs one.")
		return err
	}
	_, err = fmt.Fprintf(s.out, "Published: %s; the signatures are good until %s. No peer takes it yet; begin with: shoal release rollout %s --share 1%%\n", strings.Join(list, ", "), until.Format(time.DateOnly), list[0])
	return err
}

type releaseRolloutCmd struct {
	target
	Version string `arg:"" help:"A version that is signed and published."`
	Share   string `help:"Share of all peers: 1%, 10%, 50%, 100%. A larger one contains every smaller one." required:"" placeholder:"PERCENT"`
	Again   bool   `help:"Go on although the roll-out has stopped."`
}

func (c *releaseRolloutCmd) Run(ctx context.Context, s streams) error {
	if _, err := desk.ParseShare(c.Share); err != nil {
		return fmt.Errorf("--share: %w", err)
	}
	return c.ask(ctx, s, "/releases/rollout", desk.RolloutAsk{Version: c.Version, Share: c.Share, Again: c.Again})
}

type releaseStopCmd struct{ target }

func (c *releaseStopCmd) Run(ctx context.Context, s streams) error {
	return c.ask(ctx, s, "/releases/stop", nil)
}

func (t *target) ask(ctx context.Context, s streams, path string, in any) error {
	return t.with(ctx, true, func(a *api.Client) error {
		var out desk.Releases
		if err := a.Do(ctx, http.MethodPost, path, nil, in, &out); err != nil {
			return err
		}
		return showReleases(s.out, &out)
	})
}

type releaseStatusCmd struct{ target }

func (c *releaseStatusCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, true, func(a *api.Client) error {
		var out desk.Releases
		if err := a.Do(ctx, http.MethodGet, "/releases", nil, nil, &out); err != nil {
			return err
		}
		return showReleases(s.out, &out)
	})
}

func showReleases(out io.Writer, r *desk.Releases) error {
	o := &r.Rollout
	share := float64(o.Share) * 100 / release.Whole
	switch {
	case o.Version == "":
		fmt.Fprintln(out, "rollout    none")
	case o.Stopped != "":
		fmt.Fprintf(out, "rollout    %s, to %.4g%% of all peers, has STOPPED: %s\n", o.Version, share, o.Stopped)
	default:
		fmt.Fprintf(out, "rollout    %s, to %.4g%% of all peers, since %s\n", o.Version, share, o.Since.Local().Format(time.DateTime))
	}
	if o.Version != "" {
		fmt.Fprintf(out, "cohort     %s of %d; %d took it, %d fell back\n", plain.Count(o.Cohort, "peer"), o.Peers, o.Took, o.Fell)
	}
	for _, why := range slices.Sorted(maps.Keys(o.Why)) {
		fmt.Fprintf(out, "  %d: it %s\n", o.Why[why], plain.Printable(why))
	}
	if o.Hand > 0 {
		fmt.Fprintf(out, "by hand    %s no updates by themselves\n", map[bool]string{true: "1 peer takes", false: fmt.Sprintf("%d peers take", o.Hand)}[o.Hand == 1])
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if len(o.Runs) == 0 {
		fmt.Fprintln(out, "versions   no peer has said yet which one it runs")
	} else {
		fmt.Fprintln(w, "VERSION\tPEERS\tON PROBATION\tFELL BACK")
	}
	for _, x := range o.Runs {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", plain.Printable(x.Version), x.Peers, x.Trial, x.Fell)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, x := range r.Signed {
		fmt.Fprintf(out, "signed     %s for %s, up to %.1f MB: %s\n", x.Version, strings.Join(x.Systems, ", "), float64(x.Bytes)/1e6, plain.Printable(x.Notes))
	}
	if len(r.Signed) == 0 {
		_, err := fmt.Fprintln(out, "signed     no version: shoal release publish brings those that were signed on the offline computer; shoal release init --help says how to begin")
		return err
	}
	_, err := fmt.Fprintf(out, "signatures good until %s\n", r.Until.Local().Format(time.DateOnly))
	return err
}
