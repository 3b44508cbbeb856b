package trustsim

import "shoal/manager/trust"

// earned is what a peer is credited with, by the archive's rule: a page counts when its version becomes verified, for who delivered it and for who saw it alike until
// then, once for each version. While a peer is suspended, nothing of its account counts; here each peer is an account.
type earned struct {
	pages  int
	forged int // of them, those that were never on the Web
}

// credit notes that a page's current version is verified, if it is, and was not credited yet.
func (r *run) credit(i int) {
	p := &r.web.pages[i]
	v := &p.rec.Cur
	if v.State != trust.Verified || v.Digest == p.credited[0] || v.Digest == p.credited[1] {
		return
	}
	p.credited[0], p.credited[1] = v.Digest, p.credited[0] // a record keeps two versions
	for _, n := range append([]trust.Peer{v.By}, v.Also[:v.Seen()]...) {
		if m := r.byNumber(n); m != nil {
			m.earned.pages++
			if forged(v.Digest) {
				m.earned.forged++
			}
		}
	}
}

// Credit is what lying brings a peer, for tables and CSV.
type Credit struct {
	Forged float64 `json:"credit_forged"` // share of all credit that counts at the end and is for pages that were never on the Web
	Liars  float64 `json:"credit_liars"`  // what a liar has at the end, those that were suspended included, by what an honest peer that began with it has
	Gained float64 `json:"credit_gained"` // pages never on the Web that count for a liar at the end, by all pages that count for an honest peer
}

// credits sums up what counts at the end.
func (r *run) credits() (c Credit) {
	var pages, lies, liars, honest, honestPages, liarPages float64
	for _, m := range r.members {
		switch {
		case m.liar:
			liars++
		case m.joined == 0:
			honest++
		}
		if m.gone {
			continue // withheld
		}
		pages += float64(m.earned.pages)
		if m.liar {
			lies += float64(m.earned.forged)
			liarPages += float64(m.earned.pages)
		} else if m.joined == 0 {
			honestPages += float64(m.earned.pages)
		}
	}
	each := ratio(honestPages, honest)
	c.Forged = ratio(lies, pages)
	c.Liars, c.Gained = ratio(ratio(liarPages, liars), each), ratio(ratio(lies, liars), each)
	return c
}

// wide is a Row with what it leaves out of JSON, whose keys are agreed upon.
type wide struct {
	Row
	Honest
	Credit
}
