package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/region"
)

// User data of many VMs take their room on the disk once, and are there after a
// restart.
func TestUserDataOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newTestRegion(t, func(o *region.Options) { o.Data = dir })
	alice := w.as("alice")
	data := strings.Repeat("AAAA", 444_000/4) // 333 kB
	create := func(least int) string {
		return fmt.Sprintf(`{"ImageId": "ami-deb12000", "MinVmsCount": %d, "MaxVmsCount": 100, "VmType": "tinav5.c1r1p1", "UserData": %q}`,
			least, data)
	}
	if got := alice.call("CreateVms", create(100)); got.code() != "4106" || !strings.Contains(got.text, "MinVmsCount") ||
		!strings.Contains(got.text, "at most 37") {
		t.Errorf("100 VMs with 333 kB of user data each are answered %.300s", got.text)
	}
	vm := alice.must("CreateVms", create(1)).at("Vms.36.VmId")
	w.advance(transition)
	w.advance(transition)
	var size int64
	for _, name := range []string{"region.db", "region.db-wal"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 24<<20 {
		t.Errorf("37 VMs with %d bytes of user data take %d bytes on the disk", len(data), size)
	}
	w.rest()
	w.restart()
	if got := alice.must("ReadVms", fmt.Sprintf(`{"Filters": {"VmIds": [%q]}}`, vm)).at("Vms.0.UserData"); got != data {
		t.Errorf("after a restart the user data are %.20q, of %d", got, len(got))
	}
}
