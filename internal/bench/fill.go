package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud"
	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// contents is the content of a region before it is measured. IDs, keys and
// secrets follow from numbers, so that the calling process knows them.
type contents struct {
	accounts int // number 0 is the root account
	nets     int // of each account
	subnets  int // of each Net
	tags     int // of each Net and Subnet
	vms      int // of each account, in its first Net
}

const (
	regionName = "eu-west-2"
	secretKey  = "BENCHBENCHBENCHBENCHBENCHBENCHBENCHBENCH"
)

func accountID(n int) id.Account { return id.Account(fmt.Sprintf("%012d", n+1)) }
func accessKey(n int) string     { return fmt.Sprintf("BENCH%015d", n) }
func netID(n int) id.Net         { return id.Net(fmt.Sprintf("vpc-%08x", n)) }

// define defines the flags that pass the contents to the process of a region.
func (c *contents) define(flags *flag.FlagSet) {
	flags.IntVar(&c.accounts, "accounts", 0, "")
	flags.IntVar(&c.nets, "nets", 0, "")
	flags.IntVar(&c.subnets, "subnets", 0, "")
	flags.IntVar(&c.tags, "tags", 0, "")
	flags.IntVar(&c.vms, "vms", 0, "")
}

func (c contents) args() []string {
	return []string{
		"-accounts", strconv.Itoa(c.accounts), "-nets", strconv.Itoa(c.nets),
		"-subnets", strconv.Itoa(c.subnets), "-tags", strconv.Itoa(c.tags), "-vms", strconv.Itoa(c.vms),
	}
}

// fill creates the contents, bypassing the API.
func (c contents) fill(ctx context.Context, db *resource.DB) error {
	facts := catalog.NewRegion(regionName, "bastide.localhost")
	var next atomic.Int64
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for n := int(next.Add(1)) - 1; n < c.accounts; n = int(next.Add(1)) - 1 {
				if err := errors.Join(c.addAccount(ctx, db, facts, n), c.fillAccount(ctx, db, n)); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	workers.Wait()
	return failed
}

func (c contents) addAccount(ctx context.Context, db *resource.DB, facts catalog.Region, n int) error {
	owner := accountID(n)
	if n == 0 {
		return nil // the region has created it
	}
	return db.Update(ctx, resource.Caller{Account: string(owner)}, func(tx *resource.Tx) error {
		_, err := cloud.NewAccount(tx, facts, iam.NewAccount{AccountId: owner, Email: fmt.Sprintf("owner-%d@bastide.localhost", n)})
		if err != nil {
			return err
		}
		_, err = iam.NewAccessKey(tx, owner, accessKey(n), secretKey)
		return err
	})
}

func (c contents) fillAccount(ctx context.Context, db *resource.DB, n int) error {
	return db.Update(ctx, resource.Caller{Account: string(accountID(n))}, func(tx *resource.Tx) error {
		var set id.DhcpOptionsSet
		for s := range network.DhcpOptionsSets.All(tx) {
			set = s.DhcpOptionsSetId
		}
		for i := range c.nets {
			err := network.Nets.Insert(tx, &network.Net{
				NetId: netID(i), IpRange: "10.0.0.0/16", DhcpOptionsSetId: set,
				Tenancy: network.TenancyDefault, Tags: c.someTags(), Generation: 1, ObservedGeneration: 1,
			})
			if err != nil {
				return err
			}
			for j := range c.subnets {
				err := network.Subnets.Insert(tx, &network.Subnet{
					SubnetId: id.Subnet(fmt.Sprintf("subnet-%08x", i*c.subnets+j)), NetId: netID(i), SubregionName: regionName + "a",
					IpRange: api.CIDR(fmt.Sprintf("10.0.%d.0/24", j)), Tags: c.someTags(),
				})
				if err != nil {
					return err
				}
			}
		}
		return c.fillVms(tx)
	})
}

func (c contents) someTags() []api.Tag {
	tags := make([]api.Tag, c.tags)
	for i := range tags {
		tags[i] = api.Tag{Key: fmt.Sprintf("example.com/cost-center/%d", i), Value: fmt.Sprintf("a value of usual length, number %d", i)}
	}
	return tags
}
