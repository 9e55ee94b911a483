package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// A large network of an account: its number of Nets, and of Subnets in each.
const dividedNets, dividedInto = 500, 20

// divide divides the Nets of an account into Subnets, a Subnet of each Net at a
// time, and measures the cost of the first two of each, and of the last two.
func (b *bench) divide() (err error) {
	data, err := os.MkdirTemp(b.dir, "dividing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	p, err := start("region", "-data", data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	nets, err := someNets(p)
	if err != nil {
		return err
	}
	return errors.Join(
		b.subnets("divide-first", p, nets, 0, 2),
		b.subnets("divide", p, nets, 2, dividedInto-2),
		b.subnets("divide-last", p, nets, dividedInto-2, dividedInto),
	)
}

// someNets creates the Nets, and returns their IDs.
func someNets(p *process) (ids []string, err error) {
	c, err := dial(p.Public)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	for range dividedNets {
		text, err := c.call(create(p.Public, 0))
		if err != nil {
			return nil, err
		}
		var answer struct{ Net struct{ NetId string } }
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, err
		}
		ids = append(ids, answer.Net.NetId)
	}
	return ids, nil
}

// subnets creates some more Subnets in each Net, and measures the cost until
// the driver has them.
func (b *bench) subnets(name string, p *process, nets []string, from, to int) error {
	var requests [][]byte
	for i := from; i < to; i++ {
		for _, net := range nets {
			body := fmt.Sprintf(`{"NetId":"%s","IpRange":"10.0.%d.0/24"}`, net, i)
			requests = append(requests, request(p.Public, 0, "CreateSubnet", body, time.Now()))
		}
	}
	before, err := p.usage()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := each(p.Public, requests); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(begun)
	if err := available(p); err != nil {
		return err
	}
	after, err := p.usage()
	b.add(name, sample{calls: len(requests), rate: float64(len(requests)) / took.Seconds(), cpu: after.CPU - before.CPU, took: took})
	return err
}

// available waits until no Subnet is pending.
func available(p *process) error {
	c, err := dial(p.Public)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	return c.none(p.Public, 0, "ReadSubnets", `{"Filters":{"States":["pending"]},"ResultsPerPage":1}`, "Subnets")
}

// each makes the clients send each request once.
func each(addr string, requests [][]byte) error {
	errs := make([]error, clients)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			c, err := dial(addr)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.conn.Close()
			for n := i; n < len(requests) && errs[i] == nil; n += clients {
				_, errs[i] = c.call(requests[n])
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}
