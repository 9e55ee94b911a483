// Package nameserver serves the DNS names that a region gives out: names of load
// balancers, the public and private names of VMs, and the names of its own APIs.
//
// The names of VMs say their addresses, so that they are read from the name and not
// looked up. It is authoritative for these names only, and refuses all others: it is
// no resolver.
package nameserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Options configures a [Server].
type Options struct {
	Region, Domain string
	// API is where the APIs are served; zero or unspecified: where the question came to.
	API netip.Addr
	// Balancer returns the address of the load balancer that has a name.
	Balancer func(ctx context.Context, name string) (address netip.Addr, ok bool, err error)
	Log      *slog.Logger
}

// Server replies to questions over UDP and TCP, until it is closed.
type Server struct {
	Options
	udp, tcp *dns.Server
	address  netip.AddrPort
	ended    chan struct{}
}

const (
	ttl       = 10              // seconds: load balancers come and go
	patience  = 2 * time.Second // for the address of a load balancer
	maxTCP    = 100             // questions over one connection
	idleTCP   = 5 * time.Second
	apexLabel = "ns" // the name of the server, in the SOA record
)

// Listen starts a server at an address such as 127.0.0.1:53.
func Listen(at string, o Options) (*Server, error) {
	packets, stream, err := openPort(at)
	if err != nil {
		return nil, err
	}
	where := packets.LocalAddr().(*net.UDPAddr).AddrPort()
	s := &Server{Options: o, address: where, ended: make(chan struct{}, 2)}
	s.udp = &dns.Server{PacketConn: packets, Handler: s}
	s.tcp = &dns.Server{Listener: stream, Handler: s, MaxTCPQueries: maxTCP, IdleTimeout: func() time.Duration { return idleTCP }}
	started := make(chan error, 4)
	for _, server := range []*dns.Server{s.udp, s.tcp} {
		server.NotifyStartedFunc = func() { started <- nil }
		go func() {
			err := server.ActivateAndServe()
			if err != nil {
				o.Log.Error("the name server has ended", "error", err)
			}
			started <- err // which is read if it has not started
			s.ended <- struct{}{}
		}()
	}
	if err := errors.Join(<-started, <-started); err != nil {
		return nil, errors.Join(err, packets.Close(), stream.Close())
	}
	return s, nil
}

// openPort opens one port of an address for UDP and TCP. For the port 0 it tries some:
// what the system chooses for UDP may be in use for TCP.
func openPort(at string) (packets net.PacketConn, stream net.Listener, err error) {
	tries := 1
	if strings.HasSuffix(at, ":0") {
		tries = 20
	}
	for range tries {
		if packets, err = net.ListenPacket("udp", at); err != nil {
			return nil, nil, err
		}
		if stream, err = net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			return packets, stream, nil
		}
		err = errors.Join(err, packets.Close())
	}
	return nil, nil, err
}

// Address is where the server listens.
func (s *Server) Address() netip.AddrPort { return s.address }

// Close ends the server.
func (s *Server) Close() error {
	err := errors.Join(s.udp.Shutdown(), s.tcp.Shutdown())
	<-s.ended
	<-s.ended
	return err
}

// ServeDNS implements [dns.Handler].
func (s *Server) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	reply := new(dns.Msg)
	reply.SetReply(question)
	reply.Authoritative = true
	if opt := question.IsEdns0(); opt != nil {
		reply.SetEdns0(min(max(opt.UDPSize(), dns.MinMsgSize), 1232), false)
	}
	s.fill(reply, question, w.LocalAddr())
	if err := w.WriteMsg(reply); err != nil {
		s.Log.Debug("a DNS reply was not sent", "error", err)
	}
}

// fill puts what a question asks for into its reply.
func (s *Server) fill(reply, question *dns.Msg, here net.Addr) {
	if question.Opcode != dns.OpcodeQuery || len(question.Question) != 1 {
		reply.Rcode = dns.RcodeNotImplemented
		return
	}
	q := question.Question[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name, "."))
	zone := s.zoneOf(name)
	if zone == "" || q.Qclass != dns.ClassINET {
		reply.Authoritative, reply.Rcode = false, dns.RcodeRefused
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	address, found, err := s.lookUp(ctx, name, zone, here)
	if err != nil {
		s.Log.Error("a DNS name cannot be looked up", "name", name, "error", err)
		reply.Rcode = dns.RcodeServerFailure
		return
	}
	header := dns.RR_Header{Name: q.Name, Class: dns.ClassINET, Ttl: ttl}
	switch {
	case found && address.Is4() && (q.Qtype == dns.TypeA || q.Qtype == dns.TypeANY):
		header.Rrtype = dns.TypeA
		reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: address.AsSlice()})
	case found && address.Is6() && (q.Qtype == dns.TypeAAAA || q.Qtype == dns.TypeANY):
		header.Rrtype = dns.TypeAAAA
		reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header, AAAA: address.AsSlice()})
	case name == zone && (q.Qtype == dns.TypeSOA || q.Qtype == dns.TypeANY):
		reply.Answer = append(reply.Answer, soa(zone))
	default:
		if !found && name != zone {
			reply.Rcode = dns.RcodeNameError
		}
		reply.Ns = append(reply.Ns, soa(zone))
	}
}

// zones are the domains that the region gives names in.
func (s *Server) zones() []string {
	return []string{strings.ToLower(s.Region + ".compute.internal"), strings.ToLower(s.Domain)}
}

// zoneOf is the zone that a name is in; empty: none of the region's.
func (s *Server) zoneOf(name string) string {
	for _, zone := range s.zones() {
		if name == zone || strings.HasSuffix(name, "."+zone) {
			return zone
		}
	}
	return ""
}

// lookUp is the address of a name.
func (s *Server) lookUp(ctx context.Context, name, zone string, here net.Addr) (netip.Addr, bool, error) {
	region := strings.ToLower(s.Region)
	switch host, rest, _ := strings.Cut(name, "."); {
	case rest == region+".compute.internal":
		return written(host, "ip-")
	case rest == strings.ToLower(region+".compute."+s.Domain):
		return written(host, "ows-")
	case rest == strings.ToLower(region+"."+s.Domain) && apis[host]:
		if s.API.IsValid() && !s.API.IsUnspecified() {
			return s.API, true, nil
		}
		at, err := netip.ParseAddrPort(here.String())
		return at.Addr().Unmap(), err == nil, err
	}
	return s.Balancer(ctx, name)
}

// apis are the first parts of the names of the region's APIs.
var apis = map[string]bool{"api": true, "icu": true, "fcu": true, "eim": true, "lbu": true, "directlink": true}

// written is the address that the name of a VM says, such as ip-10-0-0-4.
func written(host, prefix string) (netip.Addr, bool, error) {
	text, ok := strings.CutPrefix(host, prefix)
	address, err := netip.ParseAddr(strings.ReplaceAll(text, "-", "."))
	return address, ok && err == nil && address.Is4(), nil
}

// soa is the record that says for how long a name that is not there is taken not to
// be.
func soa(zone string) dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: dns.Fqdn(zone), Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:  fmt.Sprintf("%s.%s.", apexLabel, zone), Mbox: fmt.Sprintf("hostmaster.%s.", zone),
		Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: ttl,
	}
}
