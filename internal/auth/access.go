package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Rule is an API access rule: where a call must come from, and the client
// certificate it must present. All of its conditions must hold. A rule without
// conditions admits no caller.
type Rule struct {
	IPRanges []netip.Prefix      // the address is in one of them; empty: any
	CAs      []*x509.Certificate // the client certificate was issued by one of them
	NeedsCA  bool                // the rule names CAs, even if all of them were deleted
	// common names of client certificates; empty: any
	CNs []string
}

// asksCertificate reports whether a call needs a client certificate.
func (r Rule) asksCertificate() bool {
	return r.NeedsCA || len(r.CAs) > 0 || len(r.CNs) > 0
}

// Chains matches calls with rules. It caches which client certificates were
// issued by which CAs, because verifying costs much more than the rest of a
// call. It is safe for concurrent use.
type Chains struct {
	mu       sync.Mutex // guards verified
	verified *lru[issue, validity]
}

// An issue is a client certificate and a CA it comes from, by their
// fingerprints.
type issue struct{ leaf, ca [sha256.Size]byte }

// validity is the time in which all certificates of a chain are valid.
type validity struct{ from, until time.Time }

// NewChains returns Chains that cache a number of pairs of a client certificate
// and a CA.
func NewChains(entries int) *Chains {
	return &Chains{verified: newLRU[issue, validity](entries)}
}

// Admits reports whether one of the rules admits a call from an address by a
// client that presented a chain of certificates, its own one first, or none.
// With skipCA, as in a trusted session, certificates and their names do not
// matter.
func (c *Chains) Admits(rules []Rule, from netip.Addr, chain []*x509.Certificate, now time.Time, skipCA bool) bool {
	from = from.Unmap().WithZone("")
	return slices.ContainsFunc(rules, func(r Rule) bool {
		if !r.asksCertificate() {
			return contains(r.IPRanges, from)
		}
		return (len(r.IPRanges) == 0 || contains(r.IPRanges, from)) &&
			(skipCA || c.certified(r, chain, now))
	})
}

func contains(ranges []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// certified reports whether the certificate of a client is one that the rule
// asks for.
func (c *Chains) certified(r Rule, chain []*x509.Certificate, now time.Time) bool {
	if len(chain) == 0 {
		return false
	}
	if len(r.CNs) > 0 && !slices.Contains(r.CNs, chain[0].Subject.CommonName) {
		return false
	}
	return slices.ContainsFunc(r.CAs, func(ca *x509.Certificate) bool { return c.verifies(chain, ca, now) })
}

// verifies reports whether a chain leads to a CA. Only successes are cached,
// because a failure may be due to an intermediate certificate that this chain
// lacks.
func (c *Chains) verifies(chain []*x509.Certificate, ca *x509.Certificate, now time.Time) bool {
	key := issue{sha256.Sum256(chain[0].Raw), sha256.Sum256(ca.Raw)}
	c.mu.Lock()
	valid, ok := c.verified.get(key)
	c.mu.Unlock()
	if ok && !now.Before(valid.from) && !now.After(valid.until) {
		return true
	}

	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(ca)
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	found, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return false
	}
	valid = validityOf(found[0])
	c.mu.Lock()
	*c.verified.at(key) = valid
	c.mu.Unlock()
	return true
}

func validityOf(chain []*x509.Certificate) validity {
	v := validity{chain[0].NotBefore, chain[0].NotAfter}
	for _, cert := range chain[1:] {
		if cert.NotBefore.After(v.from) {
			v.from = cert.NotBefore
		}
		if cert.NotAfter.Before(v.until) {
			v.until = cert.NotAfter
		}
	}
	return v
}

// ClientAddress returns the address that a call comes from: the one at the
// other end of the connection or, if that is a trusted proxy, the last one
// before trusted proxies in X-Forwarded-For. Anything before that, or before an
// entry that is not an address, may be forged.
func ClientAddress(remote netip.Addr, header http.Header, trusted []netip.Prefix) netip.Addr {
	client := remote.Unmap().WithZone("")
	hops := strings.Join(header["X-Forwarded-For"], ",")
	for contains(trusted, client) && hops != "" {
		comma := strings.LastIndexByte(hops, ',')
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[comma+1:]))
		if err != nil {
			break
		}
		client = hop.Unmap().WithZone("")
		hops = hops[:max(comma, 0)]
	}
	return client
}
