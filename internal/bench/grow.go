package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// grown is the result for the region with many accounts.
type grown struct {
	resources int
	document  int             // average size in bytes
	restarts  []time.Duration // from the start of the process to its first response
	load      time.Duration   // of one account, at its first call
	// maximum resident memory in bytes, with all accounts loaded and called
	peak int64
}

// grow measures a region with many accounts: its start, its memory with all of
// them loaded, and the cost of a call before and after.
func (b *bench) grow(ctx context.Context) (err error) {
	c := contents{accounts: b.accounts, nets: 100, subnets: 9, tags: 10}
	b.grown.resources = c.accounts * c.nets * (1 + c.subnets)
	fmt.Fprintf(os.Stderr, "making %d resources\n", b.grown.resources)
	args := []string{"region", "-data", filepath.Join(b.dir, "growing")}
	p, err := start(append(args, c.args()...)...)
	if err != nil {
		return err
	}
	for range 3 {
		if err := errors.Join(p.stop(), ctx.Err()); err != nil {
			return err
		}
		begun := time.Now()
		if p, err = start(args...); err != nil {
			return err
		}
		if err := first(p, 0); err != nil {
			return err
		}
		b.grown.restarts = append(b.grown.restarts, time.Since(begun))
	}
	defer func() { err = errors.Join(err, p.stop()) }()

	if err := errors.Join(first(p, 1), b.compare("one", p)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "loading %d accounts\n", b.accounts)
	begun := time.Now()
	for n := range b.accounts {
		if err := errors.Join(first(p, n), ctx.Err()); err != nil {
			return err
		}
	}
	b.grown.load = time.Since(begun) / time.Duration(b.accounts)
	if err := b.compare("all", p); err != nil {
		return err
	}
	used, err := p.usage()
	if err != nil {
		return err
	}
	held, err := p.metric("bastide_store_held_bytes")
	b.grown.peak, b.grown.document = used.Peak, int(held)/b.grown.resources
	return err
}

// first makes one call by an account.
func first(p *process, account int) error {
	c, err := dial(p.Public)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	_, err = c.call(read(p.Public, account, 0))
	return err
}

// compare reads Nets of the root account and calls the echo, alternately.
func (b *bench) compare(name string, p *process) error {
	for range b.rounds {
		err := errors.Join(
			b.call("echo-"+name, clients, target{b.echo, b.echo.Public, reads(b.echo.Public)}),
			b.call("read-"+name, clients, target{p, p.Public, reads(p.Public)}),
		)
		if err != nil {
			return err
		}
	}
	return nil
}
