package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
	proxydriver "github.com/bastide-cloud/bastide/internal/driver/proxy"
	"github.com/bastide-cloud/bastide/internal/driver/proxy/balance"
	"github.com/bastide-cloud/bastide/internal/nameserver"
	"github.com/bastide-cloud/bastide/internal/region"
)

// balancing are the flags of serve about load balancers and names.
type balancing struct {
	driver              string
	addresses, backends string
	dns                 string
}

func (b *balancing) flags(flags *flag.FlagSet) {
	flags.StringVar(&b.driver, "balancers", "sim",
		"what load balancers run on: sim, which forwards nothing, or proxy, processes on this machine")
	flags.StringVar(&b.addresses, "balancer-addresses", "127.64.0.0/16", "`CIDR` of the addresses that load balancers listen at, one each")
	flags.StringVar(&b.backends, "balancer-backends", "",
		"`CIDRS`, separated by commas, that backends may be in (default: all but link-local addresses; never where the region itself listens)")
	flags.StringVar(&b.dns, "dns", "", "`ADDR` at which the names that the region gives out are served (default: nowhere)")
}

// balancerCommand is the command that runs a load balancer. Only a region starts
// it.
const balancerCommand = "balancer"

// options sets up what load balancers of a region run on.
func (b *balancing) options(o *region.Options, listening ...net.Addr) error {
	switch b.driver {
	case "sim":
		return nil
	case "proxy":
	default:
		return fmt.Errorf("--balancers: %q is neither sim nor proxy", b.driver)
	}
	if o.Postgres != "" {
		return errors.New("--balancers proxy keeps load balancers on one machine, which the nodes that share a database are not: " +
			"use the embedded store")
	}
	addresses, err := netip.ParsePrefix(b.addresses)
	if err != nil || addresses.Addr().BitLen()-addresses.Bits() < 1 {
		return fmt.Errorf("--balancer-addresses: %q is not a range of at least two addresses, such as 127.64.0.0/16", b.addresses)
	}
	var reach balance.Reach
	for cidr := range strings.SplitSeq(b.backends, ",") {
		if cidr = strings.TrimSpace(cidr); cidr == "" {
			continue
		}
		p, err := netip.ParsePrefix(cidr)
		if err != nil {
			return fmt.Errorf("--balancer-backends: %q is not a range such as 10.0.0.0/8", cidr)
		}
		reach.Ranges = append(reach.Ranges, p)
	}
	for _, at := range listening {
		if tcp, ok := at.(*net.TCPAddr); ok {
			reach.Own = append(reach.Own, tcp.AddrPort())
		}
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program, which load balancers run: %w", err)
	}
	data, log := o.Data, o.Logger
	o.Balancers = func(h driver.Host) (driver.BalancersOnly, error) {
		p := proxydriver.Options{
			Dir: filepath.Join(data, "balancers"), Addresses: addresses, Reach: reach, Command: []string{program, balancerCommand},
			Rand: rand.Reader, Now: time.Now, After: time.After, Log: log,
		}
		if data != "" {
			return proxydriver.Open(context.Background(), p, h)
		}
		// No other region finds what this one leaves.
		if p.Dir, err = os.MkdirTemp("", "bastide-balancers-"); err != nil {
			return nil, err
		}
		p.Tied, p.Command = true, append(p.Command, "--tied")
		d, err := proxydriver.Open(context.Background(), p, h)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(p.Dir))
		}
		return temporary{d, p.Dir}, nil
	}
	return nil
}

// temporary is a driver whose directory is removed in the end.
type temporary struct {
	*proxydriver.Driver
	dir string
}

// Close implements [driver.BalancersOnly].
func (t temporary) Close() {
	t.Driver.Close()
	_ = os.RemoveAll(t.dir) // it is in the directory for temporary files
}

// serveNames serves the region's names, if it is asked to; nil: it is not.
func (b *balancing) serveNames(s *settings, r *region.Region, public net.Addr, log *slog.Logger) (*nameserver.Server, error) {
	if b.dns == "" {
		return nil, nil
	}
	o := nameserver.Options{Region: s.region, Domain: s.domain, Balancer: r.ResolveBalancer, Log: log}
	if tcp, ok := public.(*net.TCPAddr); ok {
		o.API = tcp.AddrPort().Addr().Unmap()
	}
	names, err := nameserver.Listen(b.dns, o)
	if err != nil {
		return nil, fmt.Errorf("--dns: %w", err)
	}
	return names, nil
}

// runBalancer runs one load balancer, for the region that started it.
func runBalancer(ctx context.Context, args []string, _, messages io.Writer) error {
	flags := flag.NewFlagSet(balancerCommand, flag.ContinueOnError)
	tied := flags.Bool("tied", false, "end with the region")
	dir, err := parseWith("directory", flags, args, messages)
	if err != nil {
		return err
	}
	listener, err := proxydriver.Inherited()
	if err != nil {
		return err
	}
	p := &proxydriver.Process{
		Dir: dir, Listen: listener, Rand: rand.Reader, Now: time.Now, After: time.After, Log: slog.New(slog.NewTextHandler(messages, nil)),
	}
	if *tied {
		p.Tied = os.Stdin
	}
	return p.Run(ctx)
}
