package member

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"shoal/internal/member/memberpb"
)

// Contribution is what a network certifies of a volunteer's work: a file that strangers can check without asking anybody. It tells neither peer nor account.
type Contribution struct {
	Network     NetworkID
	NetworkName string // for people; may be empty
	Holder      uint64 // the same on all certificates of one account, and told nowhere else
	Name        string // as the volunteer gave it; the network knows no person. May be empty
	Team        string // may be empty
	Pages       uint64 // that another account, in another network, saw alike
	Bytes       uint64
	From        time.Time // the Monday of the first week that counts
	Issued      time.Time
}

// MaxContribution bounds the bytes of a certificate of contribution, with the text around it.
const MaxContribution = 16 << 10

const (
	contextContribution = "shoal contribution v1"
	kindContribution    = "shoal-contribution-"
)

// ErrText says that the text of a certificate of contribution is not what was signed.
var ErrText = errors.New("member: the text was changed, and is not what was signed")

func (c *Contribution) validate() error {
	if err := errors.Join(CheckLabel(c.NetworkName), CheckLabel(c.Name), CheckLabel(c.Team)); err != nil {
		return err
	}
	if c.Pages == 0 || c.Issued.Before(c.From) || c.Issued.UnixMilli() > maxMilli || c.From.UnixMilli() < 0 {
		return fmt.Errorf("%w: contribution of %d pages from %s to %s", ErrMalformed, c.Pages, stamp(c.From), stamp(c.Issued))
	}
	return nil
}

// CertifyContribution signs a certificate of contribution for this network. It is text: what it says in words, and then signed.
func (a *Authority) CertifyContribution(c Contribution) (string, error) {
	c.Network = a.Network()
	c.From, c.Issued = c.From.UTC().Truncate(time.Millisecond), c.Issued.UTC().Truncate(time.Millisecond)
	if err := c.validate(); err != nil {
		return "", err
	}
	raw := encode(&memberpb.Contribution{Network: c.Network[:], NetworkName: c.NetworkName, Holder: c.Holder, Name: c.Name, Team: c.Team, Pages: c.Pages, Bytes: c.Bytes, FromMs: milli(c.From), IssuedMs: milli(c.Issued)})
	sealed, err := seal(a.key, contextContribution, raw, a.Sealed(), MaxContribution/4)
	if err != nil {
		return "", err
	}
	text := c.Text() + "\nWhat was signed:\n\n"
	for word := encodeText(kindContribution, sealed); word != ""; {
		n := min(len(word), wordLine)
		text, word = text+word[:n]+"\n", word[n:]
	}
	return text, nil
}

const wordLine = 72 // characters of the signed word in a line

// Text is what a certificate of contribution says to people.
func (c *Contribution) Text() string {
	who, network := "A volunteer", "a Shoal network"
	if c.Name != "" {
		who = c.Name
	}
	if c.Team != "" {
		who += ", of the team " + c.Team
	}
	if c.NetworkName != "" {
		network = "the Shoal network " + c.NetworkName
	}
	return fmt.Sprintf(`CERTIFICATE OF CONTRIBUTION

%s

lent a computer to %s
and brought, in the weeks from %s to %s,

    %s verified pages, %s bytes

Somebody else, at another network address, saw each of these pages alike.
The name is as the volunteer gave it.

Holder   h-%012x
Network  %s
Issued   %s

To check it: shoal certificate verify FILE
`, who, network, c.From.Format(time.DateOnly), c.Issued.Format(time.DateOnly), thousands(c.Pages), thousands(c.Bytes), c.Holder, c.Network, stamp(c.Issued))
}

// thousands writes a number with a comma between each three digits.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// CheckContribution reads a certificate of contribution, and checks that a working key of the network that it names signed it while that key was in use. With
// ErrText comes what was signed. Whether the network is the one that is meant is for the reader to compare; whether the key was stolen later cannot be seen.
func CheckContribution(text string) (c Contribution, err error) {
	if len(text) > MaxContribution {
		return c, fmt.Errorf("%w: certificate of %d bytes, at most %d", ErrTooLarge, len(text), MaxContribution)
	}
	text = strings.TrimPrefix(text, "\ufeff") // of editors
	at := strings.LastIndex(text, kindContribution)
	if at < 0 {
		return c, fmt.Errorf("%w: no certificate of contribution: the part that begins with %q is missing", ErrMalformed, kindContribution)
	}
	sealed, err := decodeText(kindContribution, text[at:])
	if err != nil {
		return c, err
	}
	m, err := unseal("certificate of contribution", sealed, MaxContribution)
	if err != nil {
		return c, err
	}
	if c, err = parseContribution(m.Raw); err != nil {
		return Contribution{}, err
	}
	d, err := openDelegation(c.Network, m.Delegation)
	if err != nil {
		return Contribution{}, fmt.Errorf("%w: %w", ErrDelegation, err)
	}
	if d.Roles&SignCertificates == 0 {
		return Contribution{}, fmt.Errorf("%w: its signer's delegation does not cover it", ErrRole)
	}
	if err := verify(d.Key, contextContribution, m.Raw, m.Sig); err != nil {
		return Contribution{}, err
	}
	if err := check("the signer's delegation", c.Issued, d.NotBefore, d.NotAfter); err != nil {
		return Contribution{}, err
	}
	if said := strings.Fields(text[:at]); len(said) > 0 && strings.Join(said, " ") != strings.Join(strings.Fields(c.Text()+"\nWhat was signed:"), " ") {
		return c, ErrText
	}
	return c, nil
}

func parseContribution(raw []byte) (c Contribution, err error) {
	var m memberpb.Contribution
	if err := proto.Unmarshal(raw, &m); err != nil {
		return c, fmt.Errorf("%w: contribution: %w", ErrMalformed, err)
	}
	if c.Network, err = key32("contribution", m.Network); err != nil {
		return c, err
	}
	if c.From, err = fromMilli(m.FromMs); err != nil {
		return c, err
	}
	if c.Issued, err = fromMilli(m.IssuedMs); err != nil {
		return c, err
	}
	c.NetworkName, c.Holder, c.Name, c.Team, c.Pages, c.Bytes = m.NetworkName, m.Holder, m.Name, m.Team, m.Pages, m.Bytes
	return c, c.validate()
}
