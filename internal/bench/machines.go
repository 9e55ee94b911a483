package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A region with many VMs: the number of accounts, and of VMs in each. VMs are
// read in the root account and created in another one, which has some more
// after each round.
const machineAccounts, machinesEach = 11, 10_000

// launches is the number of CreateVms calls in a round.
const launches = 3

// readVms returns calls of ReadVms by the root account.
func readVms(addr string, filters ...string) (requests [][]byte) {
	for _, filter := range filters {
		requests = append(requests, request(addr, 0, "ReadVms", `{"Filters":{`+filter+`}}`, time.Now()))
	}
	return requests
}

// byID, byTag and byState return filters that find one VM, the VMs of a
// cluster, and the stopped VMs.
func byID() (filters []string) {
	for vm := range clients {
		filters = append(filters, fmt.Sprintf(`"VmIds":["%s"]`, vmID(vm*machinesEach/clients)))
	}
	return filters
}

func byTag() (filters []string) {
	for n := range clients {
		filters = append(filters, fmt.Sprintf(`"Tags":["%s"]`, clusterTag(n*machinesEach/clients)))
	}
	return filters
}

func byState() []string { return []string{`"VmStateNames":["stopped"]`} }

// machines measures one round.
func (b *bench) machines(p *process) error {
	return errors.Join(
		b.call("vms-by-id", clients, target{p, p.Public, readVms(p.Public, byID()...)}),
		b.clock("vms-by-tag", "ReadVms", target{p, p.Public, readVms(p.Public, byTag()...)}),
		b.clock("vms-by-state", "ReadVms", target{p, p.Public, readVms(p.Public, byState()...)}),
		b.launch("launch-1", p, 1),
		b.launch("launch-100", p, 100),
	)
}

// launch creates VMs in the public Cloud, by one call after the other, each
// made when the VMs of the one before run. It measures the time of the calls by
// the region's clock, and the CPU until the VMs run.
func (b *bench) launch(name string, p *process, vms int) error {
	const account = 1
	c, err := dial(p.Public)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	// Garbage of earlier measurements costs more to collect than so few calls.
	if _, err := p.get("/debug/pprof/heap?gc=1"); err != nil {
		return err
	}
	body := fmt.Sprintf(`{"ImageId":"%s","MinVmsCount":%d,"MaxVmsCount":%d}`, image, vms, vms)
	return b.timed(name, "CreateVms", target{p, p.Public, nil}, func() error {
		for range launches {
			text, err := c.call(request(p.Public, account, "CreateVms", body, time.Now()))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			var answer struct{ Vms []struct{ VmId string } }
			if err := json.Unmarshal(text, &answer); err != nil {
				return err
			}
			ids := make([]string, len(answer.Vms))
			for i, vm := range answer.Vms {
				ids[i] = `"` + vm.VmId + `"`
			}
			// A disk is made, and then a machine with it: before that, there is
			// nothing to ask for, and asking costs.
			time.Sleep(2 * transition)
			pending := fmt.Sprintf(`{"Filters":{"VmIds":[%s],"VmStateNames":["pending"]}}`, strings.Join(ids, ","))
			if err := c.none(p.Public, account, "ReadVms", pending, "Vms"); err != nil {
				return err
			}
		}
		return nil
	})
}
