package nameserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

func listen(t *testing.T) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", Options{
		Region: "eu-west-2", Domain: "bastide.localhost", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Balancer: func(_ context.Context, name string) (netip.Addr, bool, error) {
			switch name {
			case "web-1.eu-west-2.lbu.bastide.localhost":
				return netip.MustParseAddr("127.64.0.1"), true, nil
			case "six.eu-west-2.lbu.bastide.localhost":
				return netip.MustParseAddr("2001:db8::1"), true, nil
			case "broken.eu-west-2.lbu.bastide.localhost":
				return netip.Addr{}, false, errors.New("the driver does not respond")
			}
			return netip.Addr{}, false, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The names that the region gives out have their addresses, over UDP and TCP; others
// of its domains are not there, and it is no resolver.
func TestNames(t *testing.T) {
	t.Parallel()
	s := listen(t)
	for _, c := range []struct {
		name  string
		kind  uint16
		want  string // the address; empty: none
		rcode int
	}{
		{"web-1.eu-west-2.lbu.bastide.localhost.", dns.TypeA, "127.64.0.1", dns.RcodeSuccess},
		{"WEB-1.eu-west-2.LBU.bastide.localhost.", dns.TypeA, "127.64.0.1", dns.RcodeSuccess},
		{"web-1.eu-west-2.lbu.bastide.localhost.", dns.TypeANY, "127.64.0.1", dns.RcodeSuccess},
		{"web-1.eu-west-2.lbu.bastide.localhost.", dns.TypeAAAA, "", dns.RcodeSuccess},
		{"six.eu-west-2.lbu.bastide.localhost.", dns.TypeAAAA, "2001:db8::1", dns.RcodeSuccess},
		{"web-2.eu-west-2.lbu.bastide.localhost.", dns.TypeA, "", dns.RcodeNameError},
		{"broken.eu-west-2.lbu.bastide.localhost.", dns.TypeA, "", dns.RcodeServerFailure},
		{"ip-10-0-0-4.eu-west-2.compute.internal.", dns.TypeA, "10.0.0.4", dns.RcodeSuccess},
		{"ip-10-0-0.eu-west-2.compute.internal.", dns.TypeA, "", dns.RcodeNameError},
		{"ip-10-0-0-4.eu-west-1.compute.internal.", dns.TypeA, "", dns.RcodeRefused},
		{"ows-198-51-100-7.eu-west-2.compute.bastide.localhost.", dns.TypeA, "198.51.100.7", dns.RcodeSuccess},
		{"ows-198-51-100-777.eu-west-2.compute.bastide.localhost.", dns.TypeA, "", dns.RcodeNameError},
		{"api.eu-west-2.bastide.localhost.", dns.TypeA, "127.0.0.1", dns.RcodeSuccess},
		{"api.eu-west-1.bastide.localhost.", dns.TypeA, "", dns.RcodeNameError},
		{"bastide.localhost.", dns.TypeA, "", dns.RcodeSuccess},
		{"example.com.", dns.TypeA, "", dns.RcodeRefused},
		{"notbastide.localhost.", dns.TypeA, "", dns.RcodeRefused},
	} {
		for _, network := range []string{"udp", "tcp"} {
			question := new(dns.Msg)
			question.SetQuestion(c.name, c.kind)
			question.SetEdns0(4096, false)
			reply, _, err := (&dns.Client{Net: network}).Exchange(question, s.Address().String())
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, record := range reply.Answer {
				switch r := record.(type) {
				case *dns.A:
					got = r.A.String()
				case *dns.AAAA:
					got = r.AAAA.String()
				}
			}
			if got != c.want || reply.Rcode != c.rcode {
				t.Errorf("%s %s over %s: %s %q, want %s %q", c.name, dns.TypeToString[c.kind], network,
					dns.RcodeToString[reply.Rcode], got, dns.RcodeToString[c.rcode], c.want)
			}
			// What is not there is known not to be for some seconds.
			if none := c.rcode == dns.RcodeNameError || c.rcode == dns.RcodeSuccess && c.want == ""; none != (len(reply.Ns) == 1) {
				t.Errorf("%s %s has the authority %v", c.name, dns.TypeToString[c.kind], reply.Ns)
			}
		}
	}
}

// The standard library's resolver, and with it most programs, understands the
// replies.
func TestResolver(t *testing.T) {
	t.Parallel()
	s := listen(t)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Address().String())
	}}
	got, err := resolver.LookupHost(t.Context(), "web-1.eu-west-2.lbu.bastide.localhost.")
	if err != nil || len(got) != 1 || got[0] != "127.64.0.1" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = resolver.LookupHost(t.Context(), "web-2.eu-west-2.lbu.bastide.localhost.")
	if missing, ok := errors.AsType[*net.DNSError](err); !ok || !missing.IsNotFound {
		t.Errorf("a name that is not there: %v", err)
	}
}

// What is no question does no harm.
func TestBadQuestions(t *testing.T) {
	t.Parallel()
	s := listen(t)
	none, two, update := new(dns.Msg), new(dns.Msg), new(dns.Msg)
	none.Id = dns.Id()
	two.SetQuestion("bastide.localhost.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	update.SetUpdate("bastide.localhost.")
	for _, question := range []*dns.Msg{none, two, update} {
		reply, _, err := new(dns.Client).Exchange(question, s.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		if reply.Rcode == dns.RcodeSuccess || len(reply.Answer) != 0 {
			t.Errorf("%v gets %v", question, reply)
		}
	}
}
