package network

import (
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func wantInternetService(tx *resource.Tx, n *Net, want *driver.Net) error {
	want.InternetService = string(n.internetService(tx))
	return nil
}
