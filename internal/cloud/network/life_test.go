package network

import (
	"testing"
)

func TestLives(t *testing.T) {
	t.Parallel()
	for name, life := range map[string]interface{ Check() error }{
		"Subnet": subnetLife, "gateway": gatewayLife, "VpnConnection": vpnConnectionLife,
	} {
		if err := life.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
