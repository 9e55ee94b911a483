package acceptance

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/server"
)

// Every four failures in a row lock for a minute longer, up to ten minutes.
func TestLockoutsGrow(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	alice := w.as("alice")
	guesser := w.unsigned().signing(w.person("alice").key, "a guess")
	for lock := 1; lock <= 12; lock++ {
		for range 4 {
			if got := guesser.call("ReadNets", ""); got.code() != "1" {
				t.Fatalf("a guess before lock %d: %s", lock, got.text)
			}
		}
		minutes := time.Duration(min(lock, 10)) * time.Minute
		w.advance(minutes - time.Second)
		if got := alice.call("ReadNets", ""); got.code() != "13" {
			t.Errorf("lock %d, a second before the end of %s: %s", lock, minutes, got.text)
		}
		w.advance(time.Second)
	}
	alice.must("ReadNets", "")
}

// Who hangs up after a guess has made one, and what they asked for is not done.
func TestHangingUp(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	alice := w.as("alice")
	alice.hangingUp().call("CreateNet", `{"IpRange": "10.0.0.0/16"}`)
	if nets := alice.must("ReadNets", "").at("Nets"); nets != "[]" {
		t.Errorf("there are the Nets %s", nets)
	}
	guesser := w.unsigned().signing(w.person("alice").key, "a guess").hangingUp()
	for range 4 {
		guesser.call("ReadNets", "")
	}
	if got := alice.call("ReadNets", ""); got.code() != "13" {
		t.Errorf("after four guesses: %s", got.text)
	}
}

// The same seed and the same calls make the same day: the same ids, the same
// order, the same transitions.
func TestSameSeedSameDay(t *testing.T) {
	t.Parallel()
	day := func(seed uint64) (said []string) {
		w := newTestRegion(t, seeded(seed))
		say := func(a *answer) *answer {
			said = append(said, fmt.Sprint(a.status, a.text))
			return a
		}
		for _, name := range []string{"alice", "bob"} {
			c := w.as(name)
			net := say(c.call("CreateNet", `{"IpRange": "10.0.0.0/16"}`)).at("Net.NetId")
			for i := range 4 {
				say(c.call("CreateSubnet", fmt.Sprintf(`{"NetId": %q, "IpRange": "10.0.%d.0/23"}`, net, i)))
			}
			say(c.call("CreateAccessKey", ""))
			say(c.call("CreateUser", `{"UserName": "carol"}`))
			w.advance(transition / 2)
			say(c.call("ReadSubnets", ""))
			w.settle()
			say(c.call("ReadSubnets", `{"ResultsPerPage": 1}`))
			say(c.call("ReadApiLogs", ""))
		}
		return append(said, w.clock.Now().String())
	}
	first := day(7)
	if diff := cmp.Diff(first, day(7)); diff != "" {
		t.Errorf("the same seed makes another day:\n%s", diff)
	}
	if cmp.Equal(first, day(8)) {
		t.Error("another seed makes the same day")
	}
}

// What was answered before a restart is answered after it, and what was begun
// is finished.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t, func(o *region.Options) { o.Data = t.TempDir() })
	has := w.equip("alice")
	guesser := w.unsigned().signing(w.person("bob").key, "a guess")
	for range 4 {
		guesser.call("ReadNets", "")
	}
	everything := func() (said []string) {
		for _, a := range w.API.Actions() {
			// The simulated driver, which the console is from, forgets.
			if a.Reads && !slices.Contains(ownCalls, a.Name) && a.Name != "ReadConsoleOutput" {
				said = append(said, a.Name+" "+w.as("alice").must(a.Name, jsonOf(w.minimal(a, has))).shape("no id"))
			}
		}
		return said
	}
	before := everything()
	token := w.as("alice").must("ReadTags", `{"ResultsPerPage": 1}`).at("NextPageToken")
	w.rest()
	w.restart()
	if w.Founded != nil {
		t.Error("the region was founded again")
	}
	w.rest()
	if diff := cmp.Diff(before, everything()); diff != "" {
		t.Errorf("(-before +after the restart):\n%s", diff)
	}
	w.as("alice").must("ReadTags", jsonOf(object{"NextPageToken": token}))
	if got := w.as("bob").call("ReadNets", ""); got.code() != "13" {
		t.Errorf("a lock is gone: %s", got.text)
	}
	w.settle()
	if left := w.as("alice").must("ReadSubnets", `{"Filters": {"States": ["pending"]}}`).at("Subnets"); left != "[]" {
		t.Errorf("still pending are the Subnets %s", left)
	}
}

// Calls that come at once are put in an order: no two Subnets share an address
// and no quota is passed.
func TestCallsAtOnce(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t, func(o *region.Options) {
		o.Quotas = catalog.Limits()
		o.Quotas["vpc_limit"] = 5
	})
	alice := w.as("alice")
	net := alice.must("CreateNet", `{"IpRange": "10.0.0.0/24"}`).at("Net.NetId")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 8 {
				from := netip.AddrFrom4([4]byte{10, 0, 0, byte(i*8+j) * 4})
				range27 := netip.PrefixFrom(from, 27-j%3).Masked()
				alice.call("CreateSubnet", fmt.Sprintf(`{"NetId": %q, "IpRange": %q}`, net, range27))
				alice.call("CreateNet", `{"IpRange": "10.0.0.0/16"}`)
				alice.call("CreateAccessKey", "")
				alice.must("ReadSubnets", "")
			}
		})
	}
	wg.Wait()
	w.settle()
	var ranges []netip.Prefix
	w.view("alice", func(tx *resource.Tx) error {
		for s := range network.Subnets.All(tx) {
			for _, other := range ranges {
				if other.Overlaps(s.IpRange.Prefix()) {
					t.Errorf("the Subnet %s overlaps %s", s.IpRange, other)
				}
			}
			ranges = append(ranges, s.IpRange.Prefix())
		}
		if nets := network.Nets.Count(tx); nets != 5 {
			t.Errorf("there are %d Nets, and 5 are allowed", nets)
		}
		return nil
	})
	if len(ranges) < 2 {
		t.Errorf("only %d Subnets were made", len(ranges))
	}
	if got := alice.must("ReadAccessKeys", ""); len(got.body["AccessKeys"].([]any)) != 10 {
		t.Errorf("10 access keys are allowed: %s", got.text)
	}
}

// TestListener calls over a connection as clients do, with TLS and a certificate
// that an API access rule asks for.
func TestListener(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	trusted := newAuthority(t, "The region's authority")
	served := httptest.NewUnstartedServer(w.Handler)
	served.TLS = server.TLS(issue(t, &trusted.Certificate, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}))
	served.StartTLS()
	defer served.Close()
	ca := newAuthority(t, "Example authority")
	roots := x509.NewCertPool()
	roots.AddCert(trusted.Leaf)
	p := w.person("alice")
	read := func(cert *tls.Certificate, body io.Reader, signed string) (status int, text string) {
		t.Helper()
		config := &tls.Config{RootCAs: roots, Time: w.clock.Now}
		if cert != nil {
			config.Certificates = []tls.Certificate{*cert}
		}
		client := &nethttp.Client{Transport: &nethttp.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
		defer client.CloseIdleConnections()
		r, err := nethttp.NewRequest("POST", served.URL+"/api/v1/ReadNets", body)
		if err != nil {
			t.Fatal(err)
		}
		signature(r, []byte(signed), p.key, p.secret, w.clock.Now())
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		if err := unmarshal(string(got), &a.body); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		w.note(a.at("ResponseContext.RequestId"), call{"ReadNets", resp.StatusCode})
		return resp.StatusCode, string(got)
	}
	caID := w.as("alice").must("CreateCa", jsonOf(object{"CaPem": ca.pem()})).at("Ca.CaId")
	rule := w.as("alice").must("ReadApiAccessRules", "").at("ApiAccessRules.0.ApiAccessRuleId")

	if status, text := read(nil, strings.NewReader("{}"), "{}"); status != nethttp.StatusOK {
		t.Errorf("without a certificate, before a rule asks for one: %d %s", status, text)
	}
	w.as("alice").must("UpdateApiAccessRule", jsonOf(object{"ApiAccessRuleId": rule, "CaIds": []string{caID}, "Cns": []string{"alice"}}))
	if status, text := read(nil, strings.NewReader("{}"), "{}"); status != nethttp.StatusUnauthorized || !strings.Contains(text, `"14"`) {
		t.Errorf("without a certificate: %d %s", status, text)
	}
	alice, mallory := ca.issue(t, "alice"), ca.issue(t, "mallory")
	if status, text := read(&mallory, strings.NewReader("{}"), "{}"); status != nethttp.StatusUnauthorized || !strings.Contains(text, `"14"`) {
		t.Errorf("with a certificate for another name: %d %s", status, text)
	}
	if status, text := read(&alice, strings.NewReader("{}"), "{}"); status != nethttp.StatusOK {
		t.Errorf("with the certificate: %d %s", status, text)
	}

	// A reader that hides its size makes a body of unknown length.
	hidden := func(size int) io.Reader {
		return io.MultiReader(strings.NewReader("{}"), bytes.NewReader(bytes.Repeat([]byte(" "), size-2)))
	}
	if status, text := read(&alice, hidden(1<<20), "{}"+strings.Repeat(" ", 1<<20-2)); status != nethttp.StatusOK {
		t.Errorf("a body of unknown length: %d %s", status, text)
	}
	if status, text := read(&alice, hidden(1<<20+1), ""); status != nethttp.StatusBadRequest || !strings.Contains(text, `"4106"`) {
		t.Errorf("a body that turns out too large: %d %s", status, text)
	}
}
