package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// A holder is a certificate and its private key.
type holder struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issueCert makes a certificate that is valid for a year around testTime,
// signed by the issuer, or by itself without one.
func issueCert(t testing.TB, issuer *holder, name string, change func(*x509.Certificate)) *holder {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    testTime.AddDate(0, -6, 0),
		NotAfter:     testTime.AddDate(0, 6, 0),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	change(template)
	if issuer == nil {
		issuer = &holder{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.cert, key.Public(), issuer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &holder{cert, key}
}

func authority(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.ExtKeyUsage = true, true, nil
	c.KeyUsage = x509.KeyUsageCertSign
}

func asClient(*x509.Certificate) {}

func pemText(blockType string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: der}))
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	ca, otherCA := issueCert(t, nil, "ca", authority), issueCert(t, nil, "other ca", authority)
	middle := issueCert(t, ca, "middle", authority)
	leaf := issueCert(t, ca, "alice", asClient)
	deep := issueCert(t, middle, "alice", asClient)
	foreign := issueCert(t, otherCA, "alice", asClient)
	server := issueCert(t, ca, "alice", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	impostor := issueCert(t, issueCert(t, nil, "ca", authority), "alice", asClient)
	notCA := issueCert(t, leaf, "alice", asClient)

	certs := func(holders ...*holder) (chain []*x509.Certificate) {
		for _, h := range holders {
			chain = append(chain, h.cert)
		}
		return chain
	}
	net10 := Rule{IPRanges: prefixes("10.0.0.0/8")}
	onlyCA := Rule{NeedsCA: true, CAs: certs(ca)}
	alice := Rule{NeedsCA: true, CAs: certs(ca), CNs: []string{"bob", "alice"}}
	all := Rule{IPRanges: prefixes("10.0.0.0/8"), NeedsCA: true, CAs: certs(otherCA, ca), CNs: []string{"alice"}}

	for _, test := range []struct {
		name   string
		rules  []Rule
		from   string
		chain  []*x509.Certificate
		later  time.Duration
		skipCA bool
		want   bool
	}{
		{name: "no rule", from: "10.1.2.3"},
		{name: "rule that says nothing", rules: []Rule{{}}, from: "10.1.2.3"},
		{name: "rule that says nothing, in a trusted session", rules: []Rule{{}}, from: "10.1.2.3", skipCA: true},
		{name: "in the range", rules: []Rule{net10}, from: "10.1.2.3", want: true},
		{name: "out of the range", rules: []Rule{net10}, from: "11.1.2.3"},
		{name: "mapped to IPv6", rules: []Rule{net10}, from: "::ffff:10.1.2.3", want: true},
		{name: "all of IPv4 is not IPv6", rules: []Rule{{IPRanges: prefixes("0.0.0.0/0")}}, from: "2001:db8::1"},
		{name: "all of IPv6 is not IPv4", rules: []Rule{{IPRanges: prefixes("::/0")}}, from: "::ffff:10.1.2.3"},
		{name: "IPv6 with a zone", rules: []Rule{{IPRanges: prefixes("fe80::/10")}}, from: "fe80::1%eth0", want: true},
		{name: "second range", rules: []Rule{{IPRanges: prefixes("192.0.2.0/24", "10.0.0.0/8")}}, from: "10.1.2.3", want: true},
		{name: "second rule", rules: []Rule{alice, net10}, from: "10.1.2.3", want: true},

		{name: "certificate", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(leaf), want: true},
		{name: "no certificate", rules: []Rule{onlyCA}, from: "11.1.2.3"},
		{name: "certificate from another CA", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(foreign)},
		{name: "certificate from another CA, with the CA added", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(foreign, ca, otherCA)},
		{name: "certificate from a CA of the same name", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(impostor)},
		{name: "certificate of a server", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(server)},
		{name: "certificate from one that is no CA", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(notCA, leaf)},
		{name: "intermediate shown", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(deep, middle), want: true},
		{name: "intermediate not shown", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(deep)},
		{name: "intermediate as the CA", rules: []Rule{{NeedsCA: true, CAs: certs(middle)}}, from: "11.1.2.3", chain: certs(deep), want: true},
		{name: "expired", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(leaf), later: 365 * 24 * time.Hour},
		{name: "not yet valid", rules: []Rule{onlyCA}, from: "11.1.2.3", chain: certs(leaf), later: -365 * 24 * time.Hour},
		{name: "CAs not marked as needed", rules: []Rule{{CAs: certs(ca)}}, from: "11.1.2.3"},
		{name: "CAs all gone", rules: []Rule{{NeedsCA: true, IPRanges: prefixes("0.0.0.0/0")}}, from: "11.1.2.3", chain: certs(leaf)},

		{name: "name", rules: []Rule{alice}, from: "11.1.2.3", chain: certs(leaf), want: true},
		{name: "other name", rules: []Rule{{NeedsCA: true, CAs: certs(ca), CNs: []string{"bob"}}}, from: "11.1.2.3", chain: certs(leaf)},
		{name: "name in other letters", rules: []Rule{{NeedsCA: true, CAs: certs(ca), CNs: []string{"Alice"}}}, from: "11.1.2.3",
			chain: certs(leaf)},
		{name: "right name from another CA", rules: []Rule{alice}, from: "11.1.2.3", chain: certs(foreign)},
		{name: "name that no CA vouches for", rules: []Rule{{IPRanges: prefixes("0.0.0.0/0"), CNs: []string{"alice"}}}, from: "11.1.2.3",
			chain: certs(leaf)},

		{name: "all of range, CA and name", rules: []Rule{all}, from: "10.1.2.3", chain: certs(leaf), want: true},
		{name: "all but the range", rules: []Rule{all}, from: "11.1.2.3", chain: certs(leaf)},
		{name: "all but the certificate", rules: []Rule{all}, from: "10.1.2.3"},
		{name: "halves of two rules", rules: []Rule{net10, onlyCA}, from: "11.1.2.3", chain: certs(foreign)},

		{name: "trusted session in the range", rules: []Rule{all}, from: "10.1.2.3", skipCA: true, want: true},
		{name: "trusted session out of the range", rules: []Rule{all}, from: "11.1.2.3", skipCA: true},
		{name: "trusted session, rule without a range", rules: []Rule{alice}, from: "11.1.2.3", skipCA: true, want: true},
		{name: "trusted session, CAs all gone", rules: []Rule{{NeedsCA: true}}, from: "11.1.2.3", skipCA: true, want: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			chains := NewChains(10)
			from := netip.MustParseAddr(test.from)
			for _, round := range []string{"first", "with the chain remembered"} {
				if got := chains.Admits(test.rules, from, test.chain, testTime.Add(test.later), test.skipCA); got != test.want {
					t.Errorf("Admits = %v, want %v, %s", got, test.want, round)
				}
			}
		})
	}
}

// A remembered chain is good for as long as each of its certificates is, and
// for no other certificate or CA.
func TestChainsRespectValidity(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return testTime.AddDate(0, 0, n) }
	during := func(from, until int, change func(*x509.Certificate)) func(*x509.Certificate) {
		return func(c *x509.Certificate) { change(c); c.NotBefore, c.NotAfter = day(from), day(until) }
	}
	ca := issueCert(t, nil, "ca", during(0, 30, authority))
	middle := issueCert(t, ca, "middle", during(2, 20, authority))
	leaf := issueCert(t, middle, "alice", during(1, 25, asClient))
	other := issueCert(t, ca, "alice", during(1, 25, asClient))

	chains := NewChains(10)
	rules := []Rule{{NeedsCA: true, CAs: []*x509.Certificate{ca.cert}}}
	from := netip.MustParseAddr("10.1.2.3")
	shown := []*x509.Certificate{leaf.cert, middle.cert}
	for _, test := range []struct {
		name  string
		chain []*x509.Certificate
		now   time.Time
		want  bool
	}{
		{"nothing is remembered", shown[:1], day(10), false},
		{"all valid", shown, day(10), true},
		{"remembered without the intermediate", shown[:1], day(10), true},
		{"first second", shown, day(2), true},
		{"last second", shown, day(20), true},
		{"intermediate not yet valid", shown, day(2).Add(-time.Second), false},
		{"intermediate expired", shown, day(20).Add(time.Second), false},
		{"all valid again", shown, day(10), true},
		{"another certificate of the name", []*x509.Certificate{other.cert}, day(21), true},
	} {
		if got := chains.Admits(rules, from, test.chain, test.now, false); got != test.want {
			t.Errorf("%s: Admits = %v, want %v", test.name, got, test.want)
		}
	}

	otherCA := issueCert(t, nil, "ca", authority)
	if chains.Admits([]Rule{{CAs: []*x509.Certificate{otherCA.cert}}}, from, shown, day(10), false) {
		t.Error("a chain up to one CA is remembered as one up to another")
	}
}

func TestChainsAreBoundedAndShared(t *testing.T) {
	t.Parallel()
	ca := issueCert(t, nil, "ca", authority)
	rules := []Rule{{NeedsCA: true, CAs: []*x509.Certificate{ca.cert}}}
	leaves := make([]*holder, 6)
	for i := range leaves {
		leaves[i] = issueCert(t, ca, "alice", asClient)
	}
	const size = 3
	chains := NewChains(size)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 12 {
				leaf := leaves[(i+j)%len(leaves)].cert
				if !chains.Admits(rules, netip.Addr{}, []*x509.Certificate{leaf}, testTime, false) {
					t.Errorf("leaf %d is refused", (i+j)%len(leaves))
				}
			}
		})
	}
	all.Wait()
	if got := len(chains.verified.entries); got != size {
		t.Errorf("%d chains are remembered, want %d", got, size)
	}
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	proxies := prefixes("10.0.0.0/8", "fd00::/8")
	for _, test := range []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"direct", "192.0.2.1", nil, "192.0.2.1"},
		{"direct, mapped to IPv6", "::ffff:192.0.2.1", nil, "192.0.2.1"},
		{"direct with an invented header", "192.0.2.1", []string{"198.51.100.1"}, "192.0.2.1"},
		{"proxy that says nothing", "10.0.0.1", nil, "10.0.0.1"},
		{"proxy", "10.0.0.1", []string{"192.0.2.1"}, "192.0.2.1"},
		{"proxy, mapped to IPv6", "::ffff:10.0.0.1", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{"two proxies", "10.0.0.1", []string{"192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"invented hops before it", "10.0.0.1", []string{"198.51.100.1, 10.9.9.9, 192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"several headers", "10.0.0.1", []string{"198.51.100.1, 192.0.2.1", "10.0.0.3", "10.0.0.2"}, "192.0.2.1"},
		{"IPv6", "fd00::1", []string{"2001:db8::1,fd00::2"}, "2001:db8::1"},
		{"proxies only", "10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"malformed at once", "10.0.0.1", []string{"192.0.2.1, unknown"}, "10.0.0.1"},
		{"malformed behind a proxy", "10.0.0.1", []string{"192.0.2.1, 1.2.3, 10.0.0.2"}, "10.0.0.2"},
		{"malformed before the client", "10.0.0.1", []string{"rubbish, 192.0.2.1"}, "192.0.2.1"},
		{"empty entry", "10.0.0.1", []string{"192.0.2.1,"}, "10.0.0.1"},
		{"empty header between", "10.0.0.1", []string{"192.0.2.1", "", "10.0.0.2"}, "10.0.0.2"},
		{"zone", "10.0.0.1", []string{"fe80::1%eth0"}, "fe80::1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{}
			for _, value := range test.forwarded {
				header.Add("X-Forwarded-For", value)
			}
			if got := ClientAddress(netip.MustParseAddr(test.remote), header, proxies); got.String() != test.want {
				t.Errorf("ClientAddress = %s, want %s", got, test.want)
			}
		})
	}
	if got := ClientAddress(netip.MustParseAddr("10.0.0.1"), http.Header{"X-Forwarded-For": {"192.0.2.1"}}, nil); got.String() != "10.0.0.1" {
		t.Errorf("with no trusted proxy, ClientAddress = %s, want the connection's", got)
	}
}

func BenchmarkAdmits(b *testing.B) {
	ca := issueCert(b, nil, "ca", authority)
	chain := []*x509.Certificate{issueCert(b, ca, "alice", asClient).cert}
	rules := []Rule{{IPRanges: prefixes("10.0.0.0/8")}, {NeedsCA: true, CAs: []*x509.Certificate{ca.cert}, CNs: []string{"alice"}}}
	chains := NewChains(10)
	b.ReportAllocs()
	for b.Loop() {
		if !chains.Admits(rules, netip.MustParseAddr("192.0.2.1"), chain, testTime, false) {
			b.Fatal("refused")
		}
	}
}
