package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"shoal/internal/member"
	"shoal/internal/plain"
)

type certificateCmd struct {
	Verify certificateVerifyCmd `cmd:"" help:"Check a volunteer's certificate of contribution, without a network."`
}

type certificateVerifyCmd struct {
	File    string `arg:"" help:"The certificate's file; - reads standard input." placeholder:"FILE"`
	Network string `help:"The network that it must be of, as its board and shoal key show print it." placeholder:"NETWORK"`
	JSON    bool   `name:"json" help:"As JSON."`
}

// certified is what verify --json prints.
type certified struct {
	Network     string    `json:"network"`
	NetworkName string    `json:"network_name,omitempty"`
	Holder      string    `json:"holder"`
	Name        string    `json:"name,omitempty"`
	Team        string    `json:"team,omitempty"`
	Pages       uint64    `json:"pages"`
	Bytes       uint64    `json:"bytes"`
	From        time.Time `json:"from"`
	Issued      time.Time `json:"issued"`
}

func (c *certificateVerifyCmd) Run(s streams) error {
	text, err := c.read()
	if err != nil {
		return err
	}
	k, err := member.CheckContribution(text)
	switch {
	case errors.Is(err, member.ErrText):
		return fmt.Errorf("the text of this certificate was changed: what the network signed is %d verified pages for %q, on %s. Do not trust the text", k.Pages, k.Name, k.Issued.Format(time.DateOnly))
	case err != nil:
		return fmt.Errorf("this certificate is not good: %w", err)
	case c.Network != "" && !strings.EqualFold(c.Network, k.Network.String()):
		return fmt.Errorf("this certificate is signed, but by network %s, not %s", k.Network, plain.Printable(c.Network))
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(certified{k.Network.String(), k.NetworkName, fmt.Sprintf("h-%012x", k.Holder), k.Name, k.Team, k.Pages, k.Bytes, k.From, k.Issued})
	}
	if _, err := fmt.Fprint(s.out, k.Text()); err != nil {
		return err
	}
	if c.Network == "" {
		_, err = fmt.Fprintf(s.out, "\nIt is signed by the network above, and unchanged. Compare that network with the one that you mean, which shows its own on its board.\n")
		return err
	}
	_, err = fmt.Fprintf(s.out, "\nIt is signed by that network, and unchanged.\n")
	return err
}

// read reads the certificate, and no more than there can be of one.
func (c *certificateVerifyCmd) read() (string, error) {
	in := os.Stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return "", fmt.Errorf("read the certificate: %w", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, member.MaxContribution+1))
	if err != nil {
		return "", fmt.Errorf("read the certificate: %w", err)
	}
	return string(b), nil
}
