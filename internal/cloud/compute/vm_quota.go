package compute

import (
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// fleet is the sum over the VMs of an account. Memory is in GiB.
type fleet struct{ vms, cores, memory int }

func fleetOf(tx *resource.Tx) fleet {
	return fleet{vms: Vms.Count(tx), cores: Vms.Sum(tx, vmCores), memory: Vms.Sum(tx, vmMemory)}
}

// grow refuses more cores and memory than the quotas allow. Only an increase is
// checked, so that a fleet above a lowered limit stays usable.
func (f fleet) grow(tx *resource.Tx, cores, memory int) error {
	if cores > 0 {
		if err := tx.CheckLimit("core_limit", apierror.TooManyCores, f.cores+cores); err != nil {
			return err
		}
	}
	if memory > 0 {
		return tx.CheckLimit("memory_limit", apierror.TooMuchMemory, f.memory+memory)
	}
	return nil
}

func vmMeters() []resource.Meter {
	read := func(quota string, use func(fleet) int) resource.Meter {
		return resource.GlobalMeter(quota, func(tx *resource.Tx) int { return use(fleetOf(tx)) })
	}
	return []resource.Meter{
		read("core_limit", func(f fleet) int { return f.cores }),
		read("memory_limit", func(f fleet) int { return f.memory }),
	}
}
